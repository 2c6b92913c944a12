//! The size of a tree, chosen by measured step times.

use crate::drafter::VerifiedPass;
use crate::step_costs::{Clock, StepCosts};
use crate::watched::{Watched, order};
use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::DraftTree;
use std::time::Duration;

/// Nodes of the trees that are compared, the root included.
const SIZES: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Nodes before anything was measured: few, since rows cost on a CPU.
const FIRST: usize = 8;
/// Drafts that are followed before their means count.
const FOLLOWED: u32 = 4;
/// After so many, one in [`SELDOM`] steps begins to follow a draft: a large tree takes some time to grow.
const OFTEN: u32 = 32;
const SELDOM: usize = 4;
/// Weight of a draft in the means.
const WEIGHT: f64 = 1.0 / 64.0;
/// One step in so many has no drafts: the first number until `T(1)` is known, the other so that it stays known while the
/// text grows.
const PLAIN: [usize; 2] = [8, 64];
/// Times of drafted steps are measured anew every so many steps.
const ANEW: usize = 1024;

/// Chooses `n` with the greatest `E(n) / T(n)`: tokens that a step with a tree of `n` nodes emits, over its time.
///
/// `E(n)` of all sizes follows from large drafts that are followed through the text, verified or not: the `n` nodes of
/// the greatest path probability are the tree of size `n`. `T(n)` is measured where it was drafted, and linear between
/// and beyond such sizes; no tree has more than twice the nodes that were timed.
pub(super) struct Sizes {
    emitted: [MeanSpeed; SIZES.len()],
    costs: StepCosts,
    watched: Option<Watched<{ SIZES.len() }>>,
    /// When the step that is under way began, and its rows; `None` if it is not timed.
    under_way: Option<(Duration, usize)>,
    steps: usize,
    clock: Clock,
}

/// The step that comes next.
pub(super) struct Planned {
    /// Nodes of its tree.
    pub nodes: usize,
    /// Nodes of the tree that is grown, to be followed through the text; `None` if this step begins to follow none.
    pub followed: Option<usize>,
    began: Duration,
}

impl Sizes {
    /// Of which nothing is known yet.
    pub fn new(clock: Clock) -> Self {
        let (emitted, costs) = (Default::default(), StepCosts::timed());
        Self { emitted, costs, watched: None, under_way: None, steps: 0, clock }
    }

    /// Nodes of a step, at most `most`.
    pub fn plan(&mut self, most: usize) -> Planned {
        self.steps += 1;
        if self.steps.is_multiple_of(ANEW) {
            self.costs.forget_unused();
        }
        let is_plain = self.steps.is_multiple_of(PLAIN[usize::from(self.costs.knows_plain())]);
        // The steps between are timed.
        let often = if self.emitted[0].steps() < OFTEN { 2 } else { SELDOM };
        let follows = self.watched.is_none() && !is_plain && self.steps.is_multiple_of(often);
        let [.., largest] = SIZES;
        Planned {
            nodes: if is_plain { 1 } else { self.fastest(most) },
            followed: follows.then_some(largest.min(most)).filter(|&nodes| nodes > 1),
            began: (self.clock)(),
        }
    }

    /// The size, of at most `most` nodes, that emits most tokens in a time.
    fn fastest(&self, most: usize) -> usize {
        let most = most.min(FIRST.max(2 * self.costs.largest()));
        if self.emitted[0].steps() < FOLLOWED || !self.costs.knows_plain() {
            return FIRST.min(most);
        }
        let rates = SIZES.iter().zip(&self.emitted).filter(|&(&size, _)| size <= most);
        let rates = rates.map(|(&size, mean)| (size, mean.tokens() / self.costs.ratio(size)));
        rates.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(most, |(size, _)| size)
    }

    /// The draft of a planned step was grown, and `rows` of it are verified.
    pub fn drafted(&mut self, planned: &Planned, grown: &DraftTree, rows: usize) {
        let has_drafts = grown.tree().len() > 1;
        if planned.followed.is_some() && has_drafts {
            self.watched = Some(Watched::new(grown, order(grown)));
        }
        // A step that grows a large tree to follow it lasts longer than others of its size.
        self.under_way = planned.followed.is_none().then_some((planned.began, rows));
    }

    /// The text goes on elsewhere.
    pub fn forget_text(&mut self) {
        (self.watched, self.under_way) = (None, None);
    }

    /// Takes note of a pass that ended.
    pub fn observe(&mut self, pass: &VerifiedPass<'_>) {
        let Some(verified) = &pass.verified else { return self.forget_text() };
        if let Some((began, rows)) = self.under_way.take() {
            let seconds = (self.clock)().saturating_sub(began).as_secs_f64();
            self.costs.add(rows, seconds);
        }
        if let Some(watched) = self.watched.take_if(|watched| watched.follow(pass.tokens, verified.next, SIZES)) {
            for (mean, accepted) in self.emitted.iter_mut().zip(watched.accepted) {
                mean.add_slowly(WEIGHT, 0.0, accepted as f64 + 1.0);
            }
        }
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        let [.., most] = SIZES;
        if self.emitted[0].steps() < FOLLOWED {
            return;
        }
        let tokens = self.emitted.map(|mean| (mean.tokens() * 100.0).round() / 100.0);
        let times = SIZES.map(|rows| (self.costs.ratio(rows) * 100.0).round() / 100.0);
        tracing::debug!(rows = ?SIZES, ?tokens, ?times, nodes = self.fastest(most), "token recycling chose its tree");
    }
}
