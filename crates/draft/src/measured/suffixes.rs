//! Suffix drafts, measured by following them through the text.

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::step_costs::StepCosts;
use crate::suffix::SuffixDrafter;
use crate::watched::{CLASSES, Watches, class, cut, order};
use gorgon_core::Token;
use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::OwnTree;

/// Nodes of the trees that are measured, the root included.
pub(super) const SIZES: [usize; 5] = [2, 4, 8, 16, 24];
/// Drafts of a class that are followed before one is verified.
const FOLLOWED: u32 = 4;
/// After so many, one in [`SELDOM`] steps follows a draft: a large tree takes some time.
const OFTEN: u32 = 32;
const SELDOM: usize = 4;
/// The first class whose means begin with a guess: a match of four tokens or more is taken to go on for half its length.
const GUESSED: usize = 2;
/// Weight of a new draft in the means.
const WEIGHT: f64 = 1.0 / 32.0;
/// By so much drafted steps have to be faster than others: the best of several sizes has been lucky.
const MARGIN: f64 = 1.15;

/// A drafter that goes by matches in the text.
pub trait Matching: Drafter {
    /// Tokens of the match that a draft on this root would follow; 0 if there is none.
    fn matched(&mut self, root: Token) -> usize;
}

impl Matching for SuffixDrafter {
    fn matched(&mut self, root: Token) -> usize {
        SuffixDrafter::matched(self, root)
    }
}

/// Bounds of a draft.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    /// Nodes at most; with one nothing is drafted, only followed.
    pub most: usize,
    pub costs: &'a StepCosts,
    /// Plain steps that a step may lose.
    pub spare: f64,
    /// Tokens that another drafter emits in the time of a plain step, or 1.
    pub rate: f64,
}

/// Suffix drafts, and the tokens that their steps emit or would emit.
pub(super) struct Suffixes {
    pub drafter: Box<dyn Matching>,
    /// By class of the match and by size of tree. Times are not kept here.
    emitted: [[MeanSpeed; SIZES.len()]; CLASSES],
    watches: Watches<{ SIZES.len() }>,
    /// Steps that it was asked in.
    asked: usize,
    /// Steps whose drafts were verified, and their tokens.
    pub steps: usize,
    pub tokens: usize,
}

impl Suffixes {
    pub fn new(drafter: Box<dyn Matching>) -> Self {
        let mut emitted = [[MeanSpeed::default(); SIZES.len()]; CLASSES];
        for (class, means) in emitted.iter_mut().enumerate().skip(GUESSED) {
            for (mean, size) in means.iter_mut().zip(SIZES) {
                let tokens = (1.0 + f64::from(1 << class) / 2.0).min(size as f64);
                (1..FOLLOWED).for_each(|_| mean.add_slowly(WEIGHT, 0.0, tokens));
            }
        }
        Self { drafter, emitted, watches: Watches::default(), asked: 0, steps: 0, tokens: 0 }
    }

    /// The text goes on elsewhere.
    pub fn forget_text(&mut self) {
        self.watches.forget();
    }

    /// The size of tree, of at most `most` nodes, with which a step behind such a match emits most tokens in the time of
    /// a plain one, if it emits more than `rate`.
    fn size(&self, class: usize, Limits { most, costs, spare, rate }: Limits<'_>) -> Option<usize> {
        let known = SIZES.iter().zip(&self.emitted[class]).filter(|(_, mean)| mean.steps() >= FOLLOWED);
        let rates = known.map(|(&size, mean)| (size, mean.tokens() / costs.ratio(size)));
        let borne = |size: usize| size <= most && costs.ratio(size) - 1.0 <= spare;
        let paying = rates.filter(|&(size, found)| borne(size) && found > MARGIN * rate);
        paying.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(size, _)| size)
    }

    /// The draft of a step, of at most `most` nodes, if one pays and emits more than `rate` tokens in the time of a
    /// plain step. Begins to follow it, or one that does not pay, where none is followed.
    pub fn draft(
        &mut self,
        root: Token,
        context: &mut DraftContext<'_>,
        limits: Limits<'_>,
    ) -> Result<Option<Proposal>, DraftError> {
        let matched = self.drafter.matched(root);
        let class = class(matched);
        let size = self.size(class, limits).filter(|_| matched > 0);
        self.asked += 1;
        let is_new = self.emitted[class][0].steps() < OFTEN;
        let follows = self.watches.is_free(class) && (is_new || self.asked.is_multiple_of(SELDOM));
        let [.., largest] = SIZES;
        let nodes = if follows { largest } else { size.unwrap_or(1) };
        if matched == 0 || nodes == 1 {
            return Ok(None);
        }
        let tree = OwnTree::new(nodes, nodes - 1).map_err(|error| DraftError::Tree(error.to_string()))?;
        let arranged = CoupledTree { tree: &tree, coupling: context.tree.coupling };
        let mut inner = DraftContext { tree: arranged, random: &mut *context.random, target: None };
        let draft = self.drafter.draft(root, &mut inner)?.draft;
        let order = order(&draft);
        let chosen = size.map(|size| cut(&draft, &order, size)).filter(|chosen| chosen.tree().len() > 1);
        if follows && draft.tree().len() > 1 {
            self.watches.begin(class, &draft, order);
        }
        Ok(chosen.map(Proposal::list))
    }

    /// Follows the draft through tokens that a step has committed.
    pub fn follow(&mut self, pass: &VerifiedPass<'_>) {
        let Some(verified) = pass.verified else { return self.forget_text() };
        self.watches.follow(pass.tokens, verified.next, SIZES, |class, watched| {
            for (mean, accepted) in self.emitted[class].iter_mut().zip(watched.accepted) {
                mean.add_slowly(WEIGHT, 0.0, accepted as f64 + 1.0);
            }
        });
    }

    /// Logs the tokens of a step by the length of the match, which sizes of tree pay, and how many steps were drafted.
    pub fn report(&self, steps: usize, costs: &StepCosts) {
        let [.., most] = SIZES;
        for (class, means) in self.emitted.iter().enumerate().filter(|(_, means)| means[0].steps() >= FOLLOWED) {
            let tokens = means.map(|mean| (mean.tokens() * 100.0).round() / 100.0);
            let size = self.size(class, Limits { most, costs, spare: f64::INFINITY, rate: 1.0 });
            let verdict = size.map_or_else(|| "none pays".to_owned(), |size| format!("{size} rows pay"));
            tracing::debug!(matched = 1 << class, rows = ?SIZES, ?tokens, verdict, "suffix drafts");
        }
        let (times, per_step) = (costs.described(&SIZES), self.tokens as f64 / self.steps.max(1) as f64);
        tracing::debug!(
            drafted = self.steps, of = steps, tokens_per_step = per_step, plain_seconds = costs.plain(), rows = ?SIZES,
            times, margin = MARGIN,
            "suffix drafts pay with more tokens than times, by the margin (~: not measured)"
        );
    }
}
