//! Decodes answers, plainly and with drafts. Each way keeps its cache between turns.

use super::options::Options;
use crate::drafting::{Drafting, Loaded, recording};
use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::ChainTree;
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::corrections::{CorrectedDrafter, Corrections};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_draft::training_free::TrainingFree;
use gorgon_infer::{DecodeError, Event, Generation, Limits, Method, RecordedPair, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Plain steps that are timed at most, and how long that may take. One step is timed in any case.
const TIMED_STEPS: usize = 8;
const TIMING_BUDGET: Duration = Duration::from_millis(250);
/// New tokens of the plain continuation that is timed where steps are recorded.
const TIMED_TOKENS: usize = 16;

/// How steps are taken.
enum Steps {
    /// Recorded on a GPU.
    Recorded(Box<RecordedPair>),
    /// One operation after the other.
    Launched { drafted: Box<Session>, plain: Box<Session<DecoderTarget, NoDrafter>> },
}

impl Steps {
    fn load(
        drafting: &Drafting,
        model: &Model,
        rule: (RuleChoice, Transform),
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let (decoder, context) = (&model.decoder, model.context);
        let log = model.log.as_ref().filter(|_| drafting.learns());
        // A recorded step hands out nothing of its drafts, so corrections could not be seen.
        let recorded = recording::steps(drafting, decoder, context, rule)?.filter(|_| log.is_none());
        if let Some(recorded) = recorded {
            return Ok(Self::Recorded(Box::new(RecordedPair::new(recorded))));
        }
        let Loaded::Other(drafter) = drafting.load_for_use(decoder, settings.seed)? else {
            return Err(Failure::input("drafter oracle: it is for measurements, and cannot draft in a chat"));
        };
        let drafter: Box<dyn Drafter> = match log {
            Some(log) => Box::new(CorrectedDrafter::new(drafter, log.clone())),
            None => drafter,
        };
        // Caches grow with the conversation, so the one that is not in use takes nothing.
        let target = |hooks| DecoderTarget::new(decoder.clone(), context, hooks);
        let drafted = Session::new(target(drafter.needs().hooks), drafter);
        let plain = Session::plain(target(Hooks::none()));
        Ok(Self::Launched { drafted: Box::new(drafted), plain: Box::new(plain) })
    }
}

/// Whether text is the same token for token, whatever is drafted.
fn keeps_text(rule: RuleChoice) -> bool {
    matches!(rule, RuleChoice::Greedy | RuleChoice::Coupled)
}

/// The model that answers, and tokens that fit its context.
pub(super) struct Model {
    pub decoder: Arc<Decoder>,
    pub context: usize,
    /// Where corrections of heads or a draft model are logged, if they are.
    pub log: Option<Arc<dyn Corrections>>,
}

/// Decodes answers.
pub(super) struct Engine {
    pub drafting: Drafting,
    steps: Steps,
    choice: RuleChoice,
    /// Whether trees are timed under rules whose text does not depend on them.
    can_be_timed: bool,
    rule: Box<dyn AcceptanceRule + Send + Sync>,
    random: SeededRandom,
}

impl Engine {
    /// Loads what options ask for. `dir` is the model's folder.
    pub fn load(drafting: Drafting, options: &Options, model: &Model, settings: &Settings) -> Result<Self, Failure> {
        let transform = options.transform()?;
        let choice = options.accept.resolve(&transform);
        let steps = Steps::load(&drafting, model, (choice, transform), settings)?;
        let random = SeededRandom::new(options.seed);
        let can_be_timed = options.tree.is_none() && drafting.can_be_timed(model.decoder.compute());
        Ok(Self { drafting, steps, choice, can_be_timed, rule: choice.rule(transform), random })
    }

    /// The drafter and tree that options ask for. Reads no weights.
    pub fn drafting(options: &Options, dir: &Path, settings: &Settings) -> Result<Drafting, Failure> {
        let transform = options.transform()?;
        let (heads, tree) = (options.heads.as_deref(), options.tree.as_ref());
        let drafting = Drafting::resolve(heads, &options.drafter, tree, &settings.console)?;
        let rule = options.accept.resolve(&transform);
        let drafting = drafting.for_text_of(dir, (rule, transform), &settings.console)?;
        let by_times = tree.is_none() && keeps_text(rule);
        let drafting = if by_times { drafting.by_times(&settings.compute()?)? } else { drafting };
        drafting.note_calibration(tree, dir, &settings.console)?;
        Ok(drafting)
    }

    /// Takes another acceptance rule, if that is all that changes. Where steps are recorded, or the drafter samples
    /// as the rule expects, everything is loaded anew.
    pub fn change_rule(&mut self, options: &Options) -> Result<bool, Failure> {
        let transform = options.transform()?;
        let choice = options.accept.resolve(&transform);
        let last = options.drafter.last();
        let samples = matches!(
            last,
            DrafterChoice::Model(_)
                | DrafterChoice::Composed(_)
                | DrafterChoice::TrainingFree(TrainingFree::Partial(_) | TrainingFree::Skip(_))
        );
        let times_otherwise = self.can_be_timed && keeps_text(choice) != keeps_text(self.choice);
        if samples || times_otherwise || matches!(self.steps, Steps::Recorded(_)) {
            return Ok(false);
        }
        (self.choice, self.rule) = (choice, choice.rule(transform));
        Ok(true)
    }

    /// Begins the random source anew.
    pub fn reseed(&mut self, seed: u64) {
        self.random = SeededRandom::new(seed);
    }

    /// The state of the random source, to answer twice by the same choices.
    pub fn random(&self) -> SeededRandom {
        self.random.clone()
    }

    /// Puts the random source back to a state.
    pub fn set_random(&mut self, random: SeededRandom) {
        self.random = random;
    }

    /// The acceptance rule.
    pub fn rule(&self) -> RuleChoice {
        self.choice
    }

    /// Whether text is, or is distributed as, plain decoding's.
    pub fn is_lossless(&self) -> bool {
        self.rule.is_lossless()
    }

    /// Answers a prompt. What a session has read of it already is not read again.
    pub fn decode(
        &mut self,
        prompt: &[Token],
        drafts: bool,
        limits: &Limits,
        observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
        settings: &Settings,
    ) -> Result<Generation, DecodeError> {
        let rule = self.rule.as_ref();
        // No two answers share their noise; `set_random` answers twice by the same.
        let answer = self.random.clone();
        self.random.renew();
        match (&mut self.steps, drafts) {
            (Steps::Recorded(pair), _) => {
                let generation = pair.of(drafts).decode(prompt, limits, answer, observe);
                recording::report(pair.take_counts(), settings);
                generation
            }
            (Steps::Launched { drafted, .. }, true) => drafted.generate(
                Method { tree: self.drafting.builder.as_ref(), rule },
                Request::new(prompt, limits, answer),
                observe,
            ),
            (Steps::Launched { plain, .. }, false) => {
                plain.generate(Method { tree: &ChainTree::ROOT, rule }, Request::new(prompt, limits, answer), observe)
            }
        }
    }

    /// Times plain steps behind the text that the drafts' session has read; the text stays as it is. Where steps are
    /// recorded, a short plain continuation of `text` is timed, in a cache that has `room` for more tokens: the text
    /// stays read.
    pub fn time_plain_step(&mut self, text: &[Token], room: usize) -> Option<Duration> {
        match &mut self.steps {
            Steps::Launched { drafted, .. } => {
                let (begun, mut times) = (Instant::now(), vec![]);
                while times.len() < TIMED_STEPS && (times.is_empty() || begun.elapsed() < TIMING_BUDGET) {
                    times.push(drafted.time_plain_step(self.rule.as_ref()).ok()?);
                }
                // The median: other programs disturb some steps.
                times.sort_unstable();
                times.get(times.len() / 2).copied()
            }
            Steps::Recorded(pair) => {
                let limits = Limits { max_new_tokens: TIMED_TOKENS.min(room), end_tokens: vec![] };
                let plain =
                    pair.of(false).decode(text, &limits, self.random.clone(), &mut |_| ControlFlow::Continue(()));
                let plain = plain.ok()?;
                u32::try_from(plain.accepted.len()).ok().and_then(|steps| plain.times.total().checked_div(steps))
            }
        }
    }

    /// Whether timing plain steps leaves the caches as they are.
    pub fn times_in_place(&self) -> bool {
        matches!(self.steps, Steps::Launched { .. })
    }
}
