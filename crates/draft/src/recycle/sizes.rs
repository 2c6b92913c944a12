//! The size of a tree, chosen by measured step times.

use crate::drafter::VerifiedPass;
use crate::step_costs::{Clock, StepCosts};
use crate::watched::Watched;
use gorgon_core::PooledVec;
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
const PLAIN: [usize; 2] = [4, 64];
/// Times of sizes that were not drafted meanwhile are forgotten every so many steps.
const ANEW: usize = 1024;

/// Chooses `n` with the greatest `E(n) / T(n)`: tokens that a step with a tree of at most `n` nodes emits, over its time.
///
/// `E(n)` of all sizes follows from large drafts that are followed through the text, verified or not: the `n` nodes of
/// the greatest path probability are the tree of size `n`. `T(n)` is measured where it was drafted, and linear between
/// and beyond such sizes. No tree has more nodes than [`FIRST`] or twice the most that were timed.
///
/// Where several sequences are decoded at once, a step of all of them counts as the time of each: more nodes then seem
/// nearly free to each sequence, although together they are not.
pub(super) struct Sizes {
    emitted: [MeanSpeed; SIZES.len()],
    costs: StepCosts,
    /// A draft that is followed, and the nodes that it was grown within.
    watched: Option<(usize, Watched<{ SIZES.len() }>)>,
    /// Nodes that the last tree could have.
    most: usize,
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
        Self { emitted, costs, watched: None, most: 1, under_way: None, steps: 0, clock }
    }

    /// Nodes of a step, at most `most`.
    pub fn plan(&mut self, most: usize) -> Planned {
        (self.steps, self.most) = (self.steps + 1, most);
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
        let rates = SIZES.iter().zip(&self.emitted).filter(|&(&size, mean)| size <= most && mean.steps() > 0);
        let rates = rates.map(|(&size, mean)| (size, mean.tokens() / self.costs.ratio(size)));
        rates.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(most, |(size, _)| size)
    }

    /// Follows a draft that was grown within so many nodes, if it has any but its root.
    pub fn follow(&mut self, nodes: usize, grown: &DraftTree, order: PooledVec<usize>) {
        self.watched = (grown.tree().len() > 1).then(|| (nodes, Watched::new(grown, order)));
    }

    /// So many rows of a planned step are verified now.
    pub fn begin(&mut self, planned: &Planned, rows: usize) {
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
        let has_left = |(_, watched): &mut (_, Watched<_>)| watched.follow(pass.tokens, verified.next, SIZES);
        if let Some((nodes, watched)) = self.watched.take_if(has_left) {
            let means = self.emitted.iter_mut().zip(SIZES).zip(watched.accepted);
            for ((mean, _), accepted) in means.filter(|&((_, size), _)| size <= nodes) {
                mean.add_slowly(WEIGHT, 0.0, accepted as f64 + 1.0);
            }
        }
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        if self.emitted[0].steps() < FOLLOWED {
            return;
        }
        let tokens = self.emitted.map(|mean| (mean.tokens() * 100.0).round() / 100.0);
        let times = self.costs.described(&SIZES);
        let nodes = self.fastest(self.most);
        tracing::debug!(nodes, rows = ?SIZES, ?tokens, times, "token recycling chose its tree (~: not measured)");
    }
}
