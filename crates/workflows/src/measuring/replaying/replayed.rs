//! A drafter that is replayed.

use crate::drafting::{DrafterChoice, Drafting, step_ratios};
use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_bench::pass_times::StepCurve;
use gorgon_bench::replay::{self, RecordedAnswer, Replay, SimulatedHeads, Simulation, reads_tokens_alone};
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeChoice};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_draft::handover::{self, HandoverDrafter, StepRatios};
use gorgon_draft::measured::MeasuredDrafter;
use gorgon_draft::step_costs::Clock;
use gorgon_draft::training_free::TrainingFree;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A drafter, its tree, and the heads that are simulated for it (`oracle:R1,R2,…`).
pub(super) struct ReplayedDrafter {
    /// The drafter's name.
    pub name: String,
    /// The tree's name.
    pub tree: String,
    builder: Box<dyn TreeBuilder>,
    drafter: Box<dyn Drafter>,
    simulation: Simulation,
    time: PassTime,
}

/// The time that the passes so far would have taken; it stands still where no times of passes are known.
#[derive(Clone, Default)]
struct PassTime {
    costs: Option<StepCurve>,
    passed: Arc<Mutex<Duration>>,
}

impl PassTime {
    fn add(&self, nodes: usize) {
        let seconds = self.costs.as_ref().map_or(0.0, |costs| costs.seconds(nodes));
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) +=
            Duration::try_from_secs_f64(seconds).unwrap_or_default();
    }

    fn clock(&self) -> Clock {
        let passed = self.passed.clone();
        Box::new(move || *passed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReplayedDrafter {
    /// Fails where [`Self::new`] does.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn check(choice: &DrafterChoice, tree: Option<&TreeChoice>, settings: &Settings) -> Result<(), Failure> {
        Self::new(choice, tree, None, settings).map(drop)
    }

    /// A drafter that needs no model.
    ///
    /// # Errors
    /// When it needs one, a file that it names is wrong, or the tree is not one that it drafts.
    pub fn new(
        choice: &DrafterChoice,
        tree: Option<&TreeChoice>,
        costs: Option<&StepCurve>,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let simulation = Simulation::default();
        let time = PassTime { costs: costs.cloned(), ..PassTime::default() };
        let drafter = drafter(choice, &time, &simulation, settings.seed)?;
        let Some(drafter) = drafter.filter(|drafter| reads_tokens_alone(drafter.as_ref())) else {
            let message = format!("--drafter {choice}: it reads more of a model than tokens, and no model runs here");
            return Err(
                Failure::input(message).hint("gorgon bench measures it; ngram:N is one that reads tokens alone")
            );
        };
        let (tree, builder): (String, Box<dyn TreeBuilder>) = match choice.last() {
            DrafterChoice::Oracle(rates) => {
                let chain = ChainTree::new(rates.len()).map_err(Failure::input)?;
                (format!("chain:{}", rates.len()), Box::new(chain))
            }
            last => {
                let tree = tree.filter(|_| *last != DrafterChoice::None);
                let drafting = Drafting::resolve(None, choice, tree, &settings.console)?;
                (drafting.tree_name, drafting.builder)
            }
        };
        let name = if builder.max_depth() == 0 { "none".into() } else { choice.to_string() };
        Ok(Self { name, tree, builder, drafter, simulation, time })
    }

    /// Replays an answer.
    ///
    /// # Errors
    /// When the drafter fails.
    pub fn replay(&mut self, answer: &RecordedAnswer) -> Result<Replay, Failure> {
        self.simulation.reveal(&answer.answer);
        let passed = &mut |nodes| self.time.add(nodes);
        let replay = replay::replay(self.drafter.as_mut(), self.builder.as_ref(), answer, passed)?;
        Ok(Replay { draft_seconds: replay.draft_seconds + self.simulation.seconds(), ..replay })
    }
}

/// A drafter that runs no model, if it is one.
fn drafter(
    choice: &DrafterChoice,
    time: &PassTime,
    simulation: &Simulation,
    seed: u64,
) -> Result<Option<Box<dyn Drafter>>, Failure> {
    let costs = time.costs.as_ref();
    let opened = |method: &TrainingFree| method.clone().opened().map_err(Failure::input);
    Ok(Some(match choice {
        DrafterChoice::None => Box::new(NoDrafter),
        DrafterChoice::TrainingFree(method) => opened(method)?.drafter(),
        DrafterChoice::Oracle(rates) => {
            let seconds = costs.map_or(0.0, |costs| costs.draft_seconds(1 + rates.len()));
            Box::new(SimulatedHeads::new(simulation.clone(), rates.clone(), seconds, seed))
        }
        DrafterChoice::Handover { first, below, other } => {
            let Some(other) = drafter(other, time, simulation, seed)? else { return Ok(None) };
            let tree = handover::tree().map_err(Failure::input)?;
            let both = HandoverDrafter::new(opened(first)?.drafter(), other, tree);
            Box::new(match below {
                Some(_) => both,
                None => both.measured(costs.map(|costs| step_ratios(costs.times())).unwrap_or_else(StepRatios::alike)),
            })
        }
        DrafterChoice::Auto | DrafterChoice::Measured => Box::new(MeasuredDrafter::without_logits(time.clock())),
        DrafterChoice::Heads(_) | DrafterChoice::Model(_) | DrafterChoice::Composed(_) => return Ok(None),
    }))
}
