//! Times of the steps of a text, and trees of a size that pays by them.

use crate::step_costs::{Clock, StepCosts};
use gorgon_core::tree::TrellisTree;
use std::time::Duration;

/// One step in so many is plain, so that `T(1)` stays known while the text grows.
const REVISIT: usize = 64;

/// Times of sizes that were not drafted for so many steps are forgotten.
const ANEW: usize = 1024;

/// Plain steps after which a draft has to catch up with the text.
const RESTED: usize = 4;
/// A drafted step counts as so many times its usual cost at most: the machine did something else.
const LONGEST: f64 = 3.0;

/// How the next draft follows those before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// At once: its time is that of others.
    Warm,
    /// Behind a prompt, which it may read. It touches memory for the first time.
    BehindPrompt,
    /// Behind plain steps, whose tokens it may read.
    BehindPause,
}

/// A step that is under way.
#[derive(Clone, Copy)]
struct Step {
    since: Duration,
    /// Rows that are verified; `None` for a plain step.
    rows: Option<usize>,
}

/// Times the steps of one drafter.
pub(super) struct Timed {
    tree: TrellisTree,
    costs: StepCosts,
    clock: Clock,
    under_way: Option<Step>,
    steps: usize,
    readiness: Readiness,
    /// Plain steps since something was drafted.
    rested: usize,
    /// Whether the last draft was the first one behind a prompt or a pause. Its time says little of later drafts.
    is_trial: bool,
    /// How many plain steps the last step with one draft lasted, before their mean is known.
    single: f64,
}

impl Timed {
    pub fn new(tree: TrellisTree, costs: StepCosts, clock: Clock) -> Self {
        let (readiness, under_way) = (Readiness::BehindPrompt, None);
        Self { tree, costs, clock, under_way, steps: 0, readiness, rested: 0, is_trial: false, single: 1.0 }
    }

    /// How many plain steps a step with one draft lasts.
    pub fn smallest(&self) -> f64 {
        if self.costs.knows(2) { self.costs.ratio(2) } else { self.costs.ratio(2).max(self.single) }
    }

    /// The next step begins, a plain one unless something is drafted.
    pub fn begin(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(ANEW) {
            self.costs.forget_unused();
            self.single = 1.0;
        }
        self.under_way = Some(Step { since: (self.clock)(), rows: None });
    }

    /// Whether this step must be plain, because the time of a plain step is unknown or was measured long ago.
    pub fn is_plain(&self) -> bool {
        !self.costs.knows_plain() || self.steps.is_multiple_of(REVISIT)
    }

    /// Whether the next step must be drafted. The last draft was the first one behind a prompt or a pause, and its time
    /// says little of later drafts.
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// The tree of a step that may lose `spare` plain steps; `None` where no drafts may. Trees begin with
    /// one draft and have at most twice the rows that were timed before: it is hardly known how long larger steps take.
    pub fn tree(&self, most: usize, spare: f64) -> Option<TrellisTree> {
        let is_first = self.readiness == Readiness::BehindPause || !self.costs.knows(2);
        let tried = if is_first { 2 } else { 2 * self.costs.largest() };
        let most = self.tree.nodes().min(most).min(tried);
        let mut costs = self.costs.ratios(most);
        if let Some(single) = costs.get_mut(1) {
            *single = self.smallest();
        }
        let nodes = (2..=most).rev().find(|&nodes| costs[nodes - 1] - 1.0 <= spare);
        let nodes = nodes.or((self.is_trial && most > 1).then_some(2))?;
        let tree = TrellisTree::new(nodes, self.tree.depth()).ok()?;
        Some(tree.with_costs(|nodes| costs[nodes - 1]))
    }

    /// The step has drafts, or was searched for drafts that pay and has none: so many rows, the root included.
    pub fn drafted(&mut self, rows: usize) {
        if let Some(step) = &mut self.under_way {
            step.rows = Some(rows);
        }
    }

    /// Takes note of a step that ended. Returns how many plain steps it lasted, `None` for a plain one.
    pub fn end(&mut self) -> Option<f64> {
        let Step { since, rows } = self.under_way.take()?;
        let seconds = (self.clock)().saturating_sub(since).as_secs_f64();
        let Some(rows) = rows else {
            self.costs.add(1, seconds);
            self.rested += 1;
            if self.rested == RESTED && self.readiness == Readiness::Warm {
                self.readiness = Readiness::BehindPause;
            }
            return None;
        };
        self.rested = 0;
        let readiness = std::mem::replace(&mut self.readiness, Readiness::Warm);
        self.is_trial = readiness != Readiness::Warm;
        let (plain, usual) = (self.costs.plain(), self.costs.ratio(rows.max(2)));
        let cost = match readiness {
            Readiness::BehindPrompt => return Some(self.costs.ratio(rows)),
            // A lone root that heads were asked about is no plain step.
            Readiness::Warm if rows > 1 => self.costs.add(rows, seconds),
            Readiness::Warm | Readiness::BehindPause => seconds.min(LONGEST * usual * plain),
        };
        let cost = if plain > 0.0 { cost / plain } else { 1.0 };
        if rows == 2 && readiness == Readiness::Warm {
            self.single = cost;
        }
        Some(cost)
    }

    /// A prompt is read, or the text goes on elsewhere.
    pub fn forget_step(&mut self) {
        (self.under_way, self.readiness) = (None, Readiness::BehindPrompt);
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if self.steps > 0 {
            let costs = self.costs.described(&[2, 4, 8, 16]);
            tracing::debug!(
                steps = self.steps,
                plain = self.costs.plain(),
                costs,
                "steps timed; costs of 2, 4, 8, 16 rows"
            );
        }
    }
}
