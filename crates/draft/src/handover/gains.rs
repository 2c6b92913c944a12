//! Which of two drafters drafts a step, by what their steps emitted before.
//!
//! Matches fall into classes by their length: 1, 2 to 3, 4 to 7, and so on to 32 and more tokens. Of each class decayed
//! means are kept of the tokens that a step of the first drafter emits with its best 3, 7, 15 and 39 drafts, of the
//! time of such a step, and the same of the other drafter's steps. A step goes to the first where a tree size of it has
//! no fewer tokens per step and 1.05 times the tokens per time, to the fastest such size. Two means of its tokens have
//! to say so: a slow one less its standard error, since few drafts tell little, and that of the last few drafts, since
//! a text that begins to differ is to cost a few steps only.
//!
//! * The first drafter's drafts are followed through the text whether they were verified or not ([`Watches`]): what
//!   would have been accepted of them is known a few tokens later, for one draft of each class at a time. So it is
//!   measured in every class without a wrong step. It begins as if two matches had gone on, one for its length and one
//!   not at all: long ones are trusted from the start, short ones once some were followed.
//! * The other drafter is measured where it drafts. A class that it was seldom asked in counts as all of its steps. After
//!   64 steps of the first drafter in a class it drafts one.
//! * Times are `T(n) / T(1)` where heads were calibrated ([`StepRatios`]). Where they were not, and of all other
//!   drafters, a clock tells how long steps last, drafts included ([`super::timed`]), and verification is taken to last
//!   equally long for all numbers of rows that were not measured.
//!
//! Where a clock takes part, choices depend on it. Greedy and coupled text does not depend on the choices; under rules
//! that draw at random a seed stands for another text of the same distribution each time. Means outlive a text.

use super::timed::{OtherCosts, WEIGHT};
use crate::step_costs::{Clock, StepCosts};
use crate::watched::{CLASSES, Watches, class, cut, order};
use gorgon_core::Token;
use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::DraftTree;

/// Nodes of the first drafter's trees that are measured, the root included.
const SIZES: [usize; 4] = [4, 8, 16, LARGEST];
/// Nodes of the first drafter's largest tree.
pub const LARGEST: usize = 40;
/// Weight of a new draft in the mean of the first drafter's last drafts.
const RECENT: f64 = 0.25;
/// Steps of all classes that the other drafter's mean in a class begins with.
const ALIKE: f64 = 16.0;
/// Steps of the first drafter in a class after which the other drafts one.
const EXPLORED: u32 = 64;
/// By so much the first drafter has to be faster: the best of several sizes has been lucky.
const MARGIN: f64 = 1.05;

/// How many plain steps a step of so many rows lasts; 1 of all where nothing was measured.
#[derive(Clone, Debug, Default)]
pub struct StepRatios {
    /// Verification alone: the first drafter takes next to no time.
    pub verified: StepCosts,
    /// With the drafts of the other drafter; `None` where that is to be measured while it drafts.
    pub drafted: Option<StepCosts>,
}

impl StepRatios {
    /// All steps last equally long, whoever drafts.
    pub fn alike() -> Self {
        Self { drafted: Some(StepCosts::default()), ..Self::default() }
    }
}

/// Means of the first drafter's steps in a class with a size of tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    mean: MeanSpeed,
    /// Mean tokens of the last steps.
    recent: f64,
}

impl Followed {
    /// Means before the first draft: those of two steps of this cost. One emitted all its `rows`, the other its root.
    pub fn begun(cost: f64, rows: usize) -> Self {
        let mut begun = Self::default();
        [1.0, rows as f64].iter().for_each(|&tokens| begun.add(cost, tokens));
        Self { recent: rows as f64, ..begun }
    }

    pub fn add(&mut self, cost: f64, tokens: f64) {
        self.recent += RECENT * (tokens - self.recent);
        self.mean.add_slowly(WEIGHT, cost, tokens);
    }

    /// Tokens per step that can be counted on.
    pub fn tokens(&self) -> f64 {
        self.recent.min(self.mean.tokens() - self.mean.tokens_error())
    }

    /// [`Self::tokens`] over the mean cost of a step.
    fn rate(&self) -> f64 {
        self.tokens() / self.mean.seconds()
    }
}

/// Means of both drafters.
pub(super) struct Gains {
    verified: StepCosts,
    costs: OtherCosts,
    first: [[Followed; SIZES.len()]; CLASSES],
    /// By class, no match included; seconds are the costs of [`OtherCosts`].
    other: [MeanSpeed; CLASSES + 1],
    /// The other's steps of all classes.
    all: MeanSpeed,
    /// Steps of the first drafter in a class since the other drafted one.
    since: [u32; CLASSES],
    watches: Watches<{ SIZES.len() }>,
    /// Class and rows of the other's step that is under way.
    step: Option<(usize, usize)>,
}

impl Gains {
    pub fn new(ratios: StepRatios, clock: Clock) -> Self {
        let StepRatios { verified, drafted } = ratios;
        let mut first = [[Followed::default(); SIZES.len()]; CLASSES];
        for (class, sizes) in first.iter_mut().enumerate() {
            *sizes = SIZES.map(|size| Followed::begun(verified.ratio(size), size.min(1 + (1 << class))));
        }
        let (other, all) = ([MeanSpeed::default(); CLASSES + 1], MeanSpeed::default());
        let costs = OtherCosts::new(drafted, clock);
        Self { verified, costs, first, other, all, since: [0; CLASSES], watches: Watches::default(), step: None }
    }

    /// The text goes on elsewhere.
    pub fn forget_text(&mut self) {
        self.watches.forget();
        self.step = None;
        self.costs.forget();
    }

    /// A step begins.
    pub fn begin(&mut self) {
        self.step = None;
        self.costs.begin();
    }

    /// The draft of at most so many nodes that the first drafter makes of its whole one; `None` where the other is to
    /// draft.
    pub fn choose(&mut self, matched: usize, draft: &DraftTree, most: usize) -> Option<DraftTree> {
        let (class, order) = (class(matched), order(draft));
        let size = self.size(class, most).filter(|_| self.since[class] < EXPLORED);
        self.since[class] = size.map_or(0, |_| self.since[class] + 1);
        let chosen = size.map(|size| cut(draft, &order, size));
        if let Some(chosen) = &chosen {
            self.costs.drafted(chosen.tree().len(), false);
        }
        self.watches.begin(class, draft, order);
        chosen
    }

    /// The size of tree, of at most so many nodes, with which the first drafter gains most, if it gains more than the
    /// other.
    fn size(&self, class: usize, most: usize) -> Option<usize> {
        let own = self.other[class + 1];
        self.all.rate(1)?;
        let steps = f64::from(own.steps());
        let mean = |own: f64, all: f64| (steps * own + ALIKE * all) / (steps + ALIKE);
        let tokens = mean(own.tokens(), self.all.tokens());
        let least = MARGIN * tokens / mean(own.seconds(), self.all.seconds());
        let sizes = self.first[class].iter().zip(SIZES).filter(|&(_, size)| size <= most);
        let sizes = sizes.filter(|(followed, _)| followed.tokens() >= tokens && followed.rate() > least);
        sizes.max_by(|(a, _), (b, _)| a.rate().total_cmp(&b.rate())).map(|(_, size)| size)
    }

    /// True once the other drafter has drafted a step: before that there is nothing to compare.
    pub fn has_drafted(&self) -> bool {
        self.all.rate(1).is_some()
    }

    /// Logs for each class which drafter its steps go to, and what either emits per step.
    pub fn report(&self, name: &str) {
        let classes = self.first.iter().zip(&self.other[1..]).enumerate();
        for (class, (first, other)) in classes.filter(|(_, (_, other))| other.rate(1).is_some()) {
            let size = self.size(class, LARGEST);
            let chosen = SIZES.iter().zip(first).find(|(of, _)| Some(**of) == size).map(|(_, followed)| followed);
            tracing::debug!(
                name,
                matched = 1 << class,
                drafts = if size.is_some() { "first" } else { "other" },
                first_nodes = size,
                first_tokens = chosen.map(Followed::tokens),
                first_cost = chosen.map(|followed| followed.mean.seconds()),
                other_tokens = other.tokens(),
                other_cost = other.seconds(),
                margin = MARGIN,
                "handover: tokens per step, and its cost in plain steps"
            );
        }
    }

    /// The other drafter has drafted so many rows.
    pub fn handed_over(&mut self, matched: usize, rows: usize) {
        self.step = Some((matched.checked_ilog2().map_or(0, |_| class(matched) + 1), rows));
        self.costs.drafted(rows, true);
    }

    /// A step has committed tokens: as many as it emitted. `next` is the one that they are followed by.
    pub fn observe(&mut self, tokens: &[Token], next: Token) {
        let step = self.step.take();
        let cost = self.costs.end(step.map_or(1, |(_, rows)| rows), &self.verified);
        if let (Some((class, _)), Some(cost)) = (step, cost) {
            let tokens = tokens.len() as f64;
            self.other[class].add_slowly(WEIGHT, cost, tokens);
            self.all.add_slowly(WEIGHT, cost, tokens);
        }
        self.watches.follow(tokens, next, SIZES, |class, watched| {
            for ((followed, size), accepted) in self.first[class].iter_mut().zip(SIZES).zip(watched.accepted) {
                followed.add(self.verified.ratio(size.min(watched.nodes())), accepted as f64 + 1.0);
            }
        });
    }
}
