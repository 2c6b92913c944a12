//! Drafters without weights of their own, each used where its drafts pay (`auto` without heads).
//!
//! Tried are, in this order, the ways of [`ways`]: what followed a match of five tokens or more ([`crate::suffix`]), what
//! followed one of two, and token recycling ([`crate::recycle`]). The ways with the best measured rates are asked first,
//! and the first that has drafts and pays drafts the step. A way pays for a tree of `n` rows if the tokens that its steps
//! emitted on average exceed `T(n) / T(1)`, the measured time of such a step over that of a plain one.
//!
//! An unknown way is tried as long as its loss can be borne: the loss of all drafted steps, in plain steps, stays
//! below `0.25 + 0.01 · tokens`, counted over all texts. So over a text of 50 tokens or more, decoding keeps 0.98 of
//! the speed of plain decoding, as far as times repeat themselves. Trees begin small and have at most twice the rows
//! that were measured before. A way that does not pay rests for 32 steps, then for twice as many each time. One step in 64 is
//! plain, so that `T(1)` stays known while the text grows.
//!
//! Token recycling reads all logits of a step, which plain greedy steps do not compute. They are computed in its own
//! steps alone.
//!
//! Choices depend on clocks. Greedy and coupled text does not depend on the choices; under rules that draw at random a
//! seed stands for another text of the same distribution each time.

mod costs;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};
use crate::ledger::Ledger;
use crate::method::TrainingFreeMethod;
use crate::recycle::Recycle;
use crate::suffix::Suffix;
use gorgon_core::Token;
use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::{OwnError, OwnTree, TreeBuilder, TreeKind};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use smallvec::SmallVec;
use std::time::{Duration, Instant};

pub use costs::StepCosts;

/// The name on the command line.
pub const NAME: &str = "auto";
/// Nodes and depth of the largest tree.
const LARGEST: (usize, usize) = (24, 23);
/// Plain steps before anything is tried; the first step of all is not counted.
const PLAIN: u32 = 4;
/// One step in so many is plain.
const REVISIT: usize = 64;
/// Steps that a way rests for after its first trial.
const REST: usize = 32;
/// Steps that a way rests for at most.
const LONGEST_REST: usize = 1024;
/// Plain steps that all logits of a step are taken to cost before they were read.
const LOGITS: f64 = 0.3;
/// Loss that is borne: so many plain steps, and this share of the tokens.
const BORNE: (f64, f64) = (0.25, 0.01);

/// A way to draft: a drafter and its tree.
pub struct Way {
    /// How it is called in messages.
    pub name: &'static str,
    /// The drafter.
    pub drafter: Box<dyn Drafter>,
    /// Its tree.
    pub tree: OwnTree,
    /// Its steps that are measured before it is judged.
    pub trial: u32,
}

/// The ways that are tried.
///
/// # Errors
/// When a tree has no size that a tree may have.
pub fn ways() -> Result<Vec<Way>, OwnError> {
    let suffix = |least| Suffix { store: None, least }.drafter();
    let tree = |(nodes, depth)| OwnTree::new(nodes, depth);
    Ok(vec![
        Way { name: "suffix, 5 tokens", drafter: suffix(5), tree: tree(LARGEST)?, trial: 3 },
        Way { name: "suffix, 2 tokens", drafter: suffix(2), tree: tree((8, 7))?, trial: 4 },
        Way { name: "recycle", drafter: recycle().drafter(), tree: tree((8, 4))?, trial: 24 },
    ])
}

fn recycle() -> Recycle {
    Recycle { successors: 8 }
}

/// Bytes that the ways keep of one sequence, as far as they are worth counting.
pub fn bytes(model: &ModelConfig, compute: &Compute, tokens: usize) -> u128 {
    recycle().bytes(model, compute, tokens)
}

/// The largest tree that is drafted.
///
/// # Errors
/// When it has no size that a tree may have.
pub fn largest_tree() -> Result<OwnTree, OwnError> {
    OwnTree::new(LARGEST.0, LARGEST.1)
}

/// Fails unless a tree is none or a budget that all ways keep within.
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

/// A way with what is known of it.
struct Tried {
    way: Way,
    feedback: Feedback,
    speed: MeanSpeed,
    /// Steps of the present trial that are left.
    left: u32,
    /// The step from which it may be tried again, while it rests.
    until: Option<usize>,
    rest: usize,
    /// Its steps in all, and their tokens.
    steps: usize,
    tokens: usize,
}

/// The step that is under way.
#[derive(Clone, Copy)]
struct Step {
    way: Option<usize>,
    since: Duration,
    rows: usize,
    /// Whether the tree was cut short, so that it says nothing of its way.
    cut: bool,
}

/// Time since some moment.
pub type Clock = Box<dyn FnMut() -> Duration + Send>;

/// Uses each of some drafters where it pays.
pub struct MeasuredDrafter {
    ways: Vec<Tried>,
    costs: StepCosts,
    ledger: Ledger,
    under_way: Option<Step>,
    steps: usize,
    clock: Clock,
}

impl MeasuredDrafter {
    /// Over some ways, of which nothing is known yet.
    pub fn new(ways: Vec<Way>) -> Self {
        let start = Instant::now();
        Self::timed_by(ways, Box::new(move || start.elapsed()))
    }

    /// As [`Self::new`], by another clock.
    pub fn timed_by(ways: Vec<Way>, clock: Clock) -> Self {
        let tried = |way: Way| Tried {
            feedback: way.drafter.needs().feedback,
            speed: MeanSpeed::default(),
            left: way.trial,
            until: None,
            rest: REST,
            steps: 0,
            tokens: 0,
            way,
        };
        let ways = ways.into_iter().map(tried).collect();
        let (costs, ledger) = (StepCosts::default(), Ledger::default());
        Self { ways, costs, ledger, under_way: None, steps: 0, clock }
    }

    /// Whether a loss of so many more plain steps can be borne.
    fn affords(&self, loss: f64) -> bool {
        let borne = BORNE.0 + BORNE.1 * self.ledger.tokens() as f64;
        self.ledger.loss() + loss.max(0.0) <= borne
    }

    /// Ways in the order in which they are asked: those of which nothing is known, then the fastest.
    fn order(&self) -> SmallVec<[usize; 4]> {
        let rate = |&index: &usize| self.ways[index].speed.rate(1).unwrap_or(f64::INFINITY);
        let is_up = |&index: &usize| self.ways[index].is_up(self.steps);
        let mut order: SmallVec<[usize; 4]> = (0..self.ways.len()).filter(is_up).collect();
        order.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        order
    }

    /// The drafts of the first way that has some and pays, or is tried; with its number, and whether they were cut.
    fn drafted(
        &mut self,
        root: Token,
        context: &mut DraftContext<'_>,
    ) -> Result<Option<(usize, Proposal, bool)>, DraftError> {
        for index in self.order() {
            let tree = self.tree(index)?;
            let nodes = tree.max_nodes();
            // Where logits are read, a step costs even if nothing is drafted.
            if self.ways[index].feedback > Feedback::None && !self.takes(index, nodes) {
                continue;
            }
            let way = &mut self.ways[index].way;
            let arranged = CoupledTree { tree: &tree, coupling: context.tree.coupling };
            let mut inner = DraftContext { tree: arranged, random: &mut *context.random, target: None };
            let proposal = way.drafter.draft(root, &mut inner)?;
            let rows = proposal.draft.tree().len();
            let costs = rows > 1 || self.ways[index].feedback > Feedback::None;
            if costs && self.takes(index, rows) {
                let cut = rows == nodes && nodes < self.ways[index].way.tree.max_nodes();
                return Ok(Some((index, proposal, cut)));
            }
        }
        Ok(None)
    }

    /// A way's tree, cut to twice the rows that were ever measured: what a larger one takes is hardly known.
    fn tree(&self, index: usize) -> Result<OwnTree, DraftError> {
        let (tree, most) = (&self.ways[index].way.tree, 2 * self.costs.largest());
        let (nodes, depth) = (tree.max_nodes().min(most), tree.max_depth().min(most - 1));
        OwnTree::new(nodes, depth).map_err(|error| DraftError::Tree(error.to_string()))
    }

    /// Whether a way drafts a step of so many rows.
    fn takes(&self, index: usize, rows: usize) -> bool {
        let (tried, cost) = (&self.ways[index], self.costs.ratio(rows));
        let pays = tried.left == 0 && tried.speed.tokens() > cost;
        // One that is tried may emit a single token.
        let logits = if tried.feedback > Feedback::None { LOGITS } else { 0.0 };
        let risk = if pays { cost - tried.speed.tokens() } else { cost - 1.0 + logits };
        (pays || tried.left > 0) && self.affords(risk)
    }

    /// Takes note of a step that ended.
    fn learn(&mut self, step: Step, emitted: usize) {
        let seconds = (self.clock)().saturating_sub(step.since).as_secs_f64();
        let Some(index) = step.way else {
            // The first step of all touches memory for the first time.
            if self.steps > 1 {
                self.costs.add(1, seconds);
            }
            self.ledger.add(emitted, None);
            return;
        };
        // A lone root whose logits are read is no plain step.
        let seconds = if step.rows > 1 { self.costs.add(step.rows, seconds) } else { seconds };
        let plain = self.costs.plain();
        if step.cut {
            self.ledger.add(emitted, Some(self.costs.ratio(step.rows)));
            return;
        }
        let tried = &mut self.ways[index];
        tried.add(seconds, emitted);
        let cost = if step.rows > 1 { self.costs.ratio(step.rows) } else { tried.speed.seconds() / plain };
        self.ledger.add(emitted, Some(cost));
        tried.judge(plain, self.steps);
    }
}

impl Tried {
    /// Whether it may draft in a step.
    fn is_up(&self, step: usize) -> bool {
        self.until.is_none_or(|until| step >= until)
    }

    fn add(&mut self, seconds: f64, emitted: usize) {
        self.speed.add(seconds, emitted as f64);
        self.steps += 1;
        self.tokens += emitted;
    }

    /// Ends a trial. A way that does not pay rests, the longer the more often it did not.
    fn judge(&mut self, plain: f64, step: usize) {
        let was_tried = self.left > 0;
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        let (tokens, cost) = (self.speed.tokens(), self.speed.seconds() / plain);
        let pays = tokens > cost;
        if pays {
            self.rest = REST;
            if was_tried {
                self.until = None;
                tracing::debug!(way = self.way.name, tokens_per_step = tokens, cost, "drafting pays");
            }
        } else {
            self.until = Some(step + self.rest);
            self.rest = (2 * self.rest).min(LONGEST_REST);
            (self.left, self.speed) = (self.way.trial, MeanSpeed::default());
            tracing::debug!(
                way = self.way.name,
                tokens_per_step = tokens,
                cost,
                rest = self.rest / 2,
                "drafting pauses"
            );
        }
    }
}

impl Drafter for MeasuredDrafter {
    fn name(&self) -> &str {
        NAME
    }

    fn needs(&self) -> Needs {
        let feedback = self.ways.iter().map(|tried| tried.feedback).max().unwrap_or_default();
        Needs { feedback, ..Needs::default() }
    }

    fn reads(&self, needed: Feedback) -> Feedback {
        let way = self.under_way.and_then(|step| step.way);
        way.map_or(Feedback::None, |index| self.ways[index].feedback).min(needed)
    }

    fn reset(&mut self) {
        self.ways.iter_mut().for_each(|tried| tried.way.drafter.reset());
        self.under_way = None;
    }

    fn truncate(&mut self, length: usize) -> bool {
        let mut kept = true;
        self.ways.iter_mut().for_each(|tried| kept &= tried.way.drafter.truncate(length));
        self.under_way = None;
        kept
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.ways.iter_mut().try_for_each(|tried| tried.way.drafter.observe(pass))?;
        if let (Some(step), Some(_)) = (self.under_way.take(), pass.verified) {
            self.learn(step, pass.tokens.len());
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if context.tree.max_depth() == 0 {
            self.under_way = None;
            return Ok(Proposal::root(root));
        }
        let since = (self.clock)();
        self.steps += 1;
        self.under_way = Some(Step { way: None, since, rows: 1, cut: false });
        if self.costs.plain_steps() < PLAIN || self.steps.is_multiple_of(REVISIT) {
            return Ok(Proposal::root(root));
        }
        let Some((index, proposal, cut)) = self.drafted(root, context)? else { return Ok(Proposal::root(root)) };
        self.under_way = Some(Step { way: Some(index), since, rows: proposal.draft.tree().len(), cut });
        Ok(proposal)
    }
}

impl Drop for MeasuredDrafter {
    fn drop(&mut self) {
        for Tried { way, steps, tokens, .. } in self.ways.iter().filter(|tried| tried.steps > 0) {
            let per_step = *tokens as f64 / *steps as f64;
            tracing::debug!(way = way.name, steps, of = self.steps, tokens_per_step = per_step, "drafted");
        }
    }
}

#[cfg(test)]
mod tests;
