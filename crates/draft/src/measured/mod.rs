//! Drafters without weights of their own, each used where its drafts pay (`auto` without heads).
//!
//! A tree of `n` rows pays if the tokens that such steps emit on average exceed `T(n) / T(1)`, the measured time of such
//! a step over that of a plain one. Two drafters are asked:
//!
//! * Suffix drafts ([`crate::suffix`]). They are followed through the text, verified or not, so the tokens that trees of
//!   2, 4, 8, 16 and 24 rows emit are known before any is verified, by classes of matches of about one length
//!   ([`suffixes`]). The size that emits most tokens per time drafts the step, if it pays.
//! * Token recycling ([`crate::recycle`]). It reads all logits of a step, which plain greedy steps do not compute, so it
//!   has to draft to be measured. If it does not pay it rests for 64 steps, then for twice as many each time ([`trial`]).
//!
//! The loss of all drafted steps, in plain steps, stays below `0.25 + 0.003 · tokens`, counted over all texts: a step is
//! drafted only if that holds even where nothing is accepted. So from 15 tokens on, decoding keeps 0.98 of the speed of
//! plain decoding in all, as far as times repeat themselves. Trees begin small and have at most twice the rows that were
//! measured before. While no drafts pay, looking for them takes 0.3 % of the time or every 64th step, whichever is more
//! often. One step in 64 is plain, so that `T(1)` stays known while the text grows; every 1,024 steps the times of sizes
//! that were not drafted meanwhile are forgotten.
//!
//! Choices depend on clocks. Greedy and coupled text does not depend on the choices; under rules that draw at random a
//! seed stands for another text of the same distribution each time.

mod suffixes;
mod trial;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, NoDrafter, Proposal, VerifiedPass};
use crate::ledger::Ledger;
use crate::method::TrainingFreeMethod;
use crate::recycle::{Recycle, RecycleDrafter};
use crate::step_costs::{Clock, StepCosts};
use crate::suffix::{Suffix, SuffixDrafter};
use gorgon_core::Token;
use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::{OwnError, OwnTree, TreeBuilder, TreeKind};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use std::time::{Duration, Instant};
use suffixes::{Limits, Suffixes};
use trial::Trial;

pub use suffixes::Matching;
pub use trial::Tried;

/// The name on the command line.
pub const NAME: &str = "auto";
/// Nodes and depth of the largest tree.
const LARGEST: (usize, usize) = (24, 23);
/// One step in so many is plain.
const REVISIT: usize = 64;
/// While drafts do not pay, looking for them takes this share of the time of plain steps at most.
const LOOKING: f64 = 0.003;
/// Steps after which drafts are looked for again, however long that takes.
const LONGEST: usize = 64;
/// During a trial, one step in so many is left to it.
const TURN: usize = 8;
/// Times of drafted steps are measured anew every so many steps.
const ANEW: usize = 1024;
/// Plain steps that all logits of a step are taken to cost before they were read.
const LOGITS: f64 = 0.3;
/// Loss that is borne: so many plain steps, and this share of the tokens.
const BORNE: (f64, f64) = (0.25, 0.003);

/// Successors that token recycling keeps of a token.
const SUCCESSORS: usize = 8;

/// Bytes that the drafters keep of one sequence, as far as they are worth counting.
pub fn bytes(model: &ModelConfig, compute: &Compute, tokens: usize) -> u128 {
    Recycle { successors: SUCCESSORS }.bytes(model, compute, tokens)
}

/// The largest tree that is drafted.
///
/// # Errors
/// When it has no size that a tree may have.
pub fn largest_tree() -> Result<OwnTree, OwnError> {
    OwnTree::new(LARGEST.0, LARGEST.1)
}

/// Fails unless a tree is none or a budget that all drafts keep within.
///
/// # Errors
/// One line with the trees that it takes.
pub fn check_tree(tree: &TreeKind) -> Result<(), String> {
    let (nodes, depth) = LARGEST;
    match tree {
        TreeKind::Own(own) if own.nodes() >= nodes && own.depth() >= depth => Ok(()),
        _ => Err(format!("{NAME} makes its own trees: it takes own:NODES,DEPTH from own:{nodes},{depth} on")),
    }
}

/// Who drafts a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Plain,
    Suffix,
    /// `is_cut`: whether the tree was cut short, or nothing was known of the root, so that the step says nothing of the
    /// drafter.
    Tried {
        is_cut: bool,
    },
}

/// The step that is under way.
#[derive(Clone, Copy)]
struct Step {
    source: Source,
    /// When it began; `None` if it is not timed.
    since: Option<Duration>,
    rows: usize,
}

/// Uses each of two drafters where it pays.
pub struct MeasuredDrafter {
    suffixes: Suffixes,
    trial: Trial,
    costs: StepCosts,
    ledger: Ledger,
    under_way: Option<Step>,
    steps: usize,
    /// The step from which drafts are looked for again.
    looks_at: usize,
    /// Time of looking for drafts where none paid.
    looking: MeanSpeed,
    clock: Clock,
}

impl Default for MeasuredDrafter {
    /// Suffix drafts and token recycling, of which nothing is known yet.
    fn default() -> Self {
        let (start, suffix) = (Instant::now(), SuffixDrafter::new(Suffix { store: None, least: 1 }));
        let tried = Tried { drafter: Box::new(RecycleDrafter::new(SUCCESSORS)), tree: (8, 4), trial: 24 };
        Self::timed_by(Box::new(suffix), tried, Box::new(move || start.elapsed()))
    }
}

impl MeasuredDrafter {
    /// Suffix drafts alone, by a clock: where no target runs there are no logits to recycle.
    pub fn without_logits(clock: Clock) -> Self {
        let suffix = SuffixDrafter::new(Suffix { store: None, least: 1 });
        let never = Tried { drafter: Box::new(NoDrafter), tree: LARGEST, trial: 0 };
        Self::timed_by(Box::new(suffix), never, clock)
    }

    /// Over a drafter that goes by matches in the text and is followed, and one that is tried, by a clock.
    pub fn timed_by(followed: Box<dyn Matching>, tried: Tried, clock: Clock) -> Self {
        let (suffixes, trial) = (Suffixes::new(followed), Trial::new(tried));
        let (costs, ledger) = (StepCosts::timed(), Ledger::default());
        Self {
            suffixes,
            trial,
            costs,
            ledger,
            under_way: None,
            steps: 0,
            looks_at: 0,
            looking: MeanSpeed::default(),
            clock,
        }
    }

    /// Plain steps that may be lost now.
    fn spare(&self) -> f64 {
        BORNE.0 + BORNE.1 * self.ledger.tokens() as f64 - self.ledger.loss()
    }

    /// Steps until drafts are looked for again, where a search of this length found none that pay.
    fn interval(&mut self, searched: Duration) -> usize {
        self.looking.add(searched.as_secs_f64(), 1.0);
        let share = self.looking.seconds() / self.costs.plain().max(f64::MIN_POSITIVE);
        ((share / LOOKING).ceil() as usize).clamp(1, LONGEST)
    }

    /// The drafts of a step, and who made them. In a plain step a suffix draft may be followed, no more.
    fn drafted(
        &mut self,
        root: Token,
        (is_plain, is_turn): (bool, bool),
        context: &mut DraftContext<'_>,
    ) -> Result<(Proposal, Source), DraftError> {
        // Twice the rows that were ever measured: it is hardly known how long larger steps take.
        let most = if is_plain { 1 } else { context.tree.max_nodes().min(2 * self.costs.largest()) };
        let rate = self.trial.rate(self.costs.plain()).unwrap_or(1.0).max(1.0);
        let limits = Limits { most: if is_turn { 1 } else { most }, costs: &self.costs, spare: self.spare(), rate };
        if let Some(proposal) = self.suffixes.draft(root, context, limits)? {
            return Ok((proposal, Source::Suffix));
        }
        let tried = self.tried(root, most, context)?;
        Ok(tried.map_or_else(
            || (Proposal::root(root), Source::Plain),
            |(proposal, is_cut)| (proposal, Source::Tried { is_cut }),
        ))
    }

    /// The drafts of the drafter that is tried, if it pays or is worth trying; with whether they were cut short.
    fn tried(
        &mut self,
        root: Token,
        most: usize,
        context: &mut DraftContext<'_>,
    ) -> Result<Option<(Proposal, bool)>, DraftError> {
        let whole = self.trial.tried.tree;
        let (nodes, depth) = (whole.0.min(most), whole.1.min(most - 1));
        // Its logits cost even if nothing is drafted.
        if most < 2 || !self.trial.is_up(self.steps) || !self.takes(nodes) {
            return Ok(None);
        }
        let tree = OwnTree::new(nodes, depth).map_err(|error| DraftError::Tree(error.to_string()))?;
        let arranged = CoupledTree { tree: &tree, coupling: context.tree.coupling };
        let mut inner = DraftContext { tree: arranged, random: &mut *context.random, target: None };
        let proposal = self.trial.tried.drafter.draft(root, &mut inner)?;
        let rows = proposal.draft.tree().len();
        let is_cut = rows == 1 && self.trial.left > 0 || rows == nodes && nodes < whole.0;
        Ok(self.takes(rows).then_some((proposal, is_cut)))
    }

    /// True if token recycling may draft a step of so many rows: it pays, or it is on trial and the loss can be borne.
    fn takes(&self, rows: usize) -> bool {
        let (trial, cost) = (&self.trial, self.costs.ratio(rows));
        if trial.left > 0 {
            // It may emit a single token.
            let logits = if trial.feedback > Feedback::None { LOGITS } else { 0.0 };
            return cost - 1.0 + logits <= self.spare();
        }
        // The trial ended and it does not rest, so it pays.
        trial.speed.steps() > 0 && self.spare() >= 0.0
    }

    /// Takes note of a step that ended.
    fn learn(&mut self, Step { source, since, rows }: Step, emitted: usize) {
        let Some(since) = since else { return self.ledger.add(emitted, None) };
        let seconds = (self.clock)().saturating_sub(since).as_secs_f64();
        // A lone root whose logits are read is no plain step.
        let seconds = if source == Source::Plain || rows > 1 { self.costs.add(rows, seconds) } else { seconds };
        let plain = self.costs.plain();
        let cost = if plain > 0.0 { seconds / plain } else { 1.0 };
        match source {
            Source::Plain => return self.ledger.add(emitted, None),
            Source::Suffix => {
                self.suffixes.steps += 1;
                self.suffixes.tokens += emitted;
            }
            Source::Tried { is_cut: false } => self.trial.add(seconds, emitted, plain, self.steps),
            Source::Tried { is_cut: true } => {}
        }
        self.ledger.add(emitted, Some(cost));
    }
}

impl Drafter for MeasuredDrafter {
    fn name(&self) -> &str {
        NAME
    }

    fn needs(&self) -> Needs {
        Needs { feedback: self.trial.feedback, ..Needs::default() }
    }

    fn reads(&self, needed: Feedback) -> Feedback {
        let is_tried = self.under_way.is_some_and(|step| matches!(step.source, Source::Tried { .. }));
        if is_tried { self.trial.feedback.min(needed) } else { Feedback::None }
    }

    fn reset(&mut self) {
        self.suffixes.drafter.reset();
        self.suffixes.forget_text();
        self.trial.tried.drafter.reset();
        self.under_way = None;
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.suffixes.forget_text();
        self.under_way = None;
        let both = [self.suffixes.drafter.truncate(length), self.trial.tried.drafter.truncate(length)];
        both == [true, true]
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.suffixes.follow(&pass);
        self.suffixes.drafter.observe(pass)?;
        self.trial.tried.drafter.observe(pass)?;
        if let (Some(step), Some(_)) = (self.under_way.take(), pass.verified) {
            self.learn(step, pass.tokens.len());
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.under_way = None;
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        self.steps += 1;
        if self.steps.is_multiple_of(ANEW) {
            self.costs.forget_unused();
        }
        if self.steps < self.looks_at {
            self.under_way = Some(Step { source: Source::Plain, since: None, rows: 1 });
            return Ok(Proposal::root(root));
        }
        // A prompt is read here, outside of all measurements.
        self.suffixes.drafter.matched(root);
        let mut since = (self.clock)();
        let is_plain = !self.costs.knows_plain() || self.steps.is_multiple_of(REVISIT);
        // Where the text matches in all steps, a trial needs some of them.
        let is_trial = self.trial.left > 0 && self.trial.is_up(self.steps) && self.takes(2);
        let is_turn = is_trial && self.steps % TURN == 1;
        let (proposal, source) = self.drafted(root, (is_plain, is_turn), context)?;
        if source == Source::Plain {
            // The search is no part of a plain step.
            let began = std::mem::replace(&mut since, (self.clock)());
            let searched = since.saturating_sub(began);
            self.looks_at = self.steps + if is_plain || is_turn { 1 } else { self.interval(searched) };
        }
        self.under_way = Some(Step { source, since: Some(since), rows: proposal.draft.tree().len() });
        Ok(proposal)
    }
}

impl Drop for MeasuredDrafter {
    fn drop(&mut self) {
        if self.steps > 0 {
            self.suffixes.report(self.steps, &self.costs);
            self.trial.report(self.steps);
            tracing::debug!(lost = self.ledger.loss(), may_lose = self.spare(), "plain steps that drafting lost");
        }
    }
}

#[cfg(test)]
mod tests;
