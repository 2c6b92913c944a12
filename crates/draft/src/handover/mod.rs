//! Two drafters of which one goes by the text alone, and which of them drafts a step.
//!
//! With a threshold (`below=N`) the first declines, with a lone root, where fewer than `N` tokens match, and the other
//! one drafts there. Without one the measured gains decide: the first drafts where, after matches of about this length,
//! its steps emit more tokens per time than the other's. Both rules look at committed text, and at times of steps, alone
//! and settle the choice before a token is drawn, so each proposal is accepted by the law of the drafter that made it.
//! Both drafters observe all committed text.
//!
//! A step that names a smaller tree than the other drafter's usual one bounds the first drafter's tree as well: where
//! many sequences are decoded at once, small steps pay.

mod gains;
mod timed;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::step_costs::Clock;
use crate::trace::Trace;
use crate::watched::{cut, order};
use gains::Gains;
use gorgon_core::Token;
use gorgon_core::tree::{OwnError, OwnTree, TreeBuilder};
use gorgon_model::target::Target;
use std::time::Instant;

pub use gains::{LARGEST, StepRatios};

/// Nodes and depth of the first drafter's trees (SAM-Decoding's beside another drafter).
const TREE: (usize, usize) = (LARGEST, LARGEST - 1);

/// The tree of a first drafter.
///
/// # Errors
/// When it has no size that a tree may have.
pub fn tree() -> Result<OwnTree, OwnError> {
    OwnTree::new(TREE.0, TREE.1)
}

/// A drafter, and another one for what it declines, or for where it gains less.
pub struct HandoverDrafter {
    name: String,
    first: Box<dyn Drafter>,
    other: Box<dyn Drafter>,
    /// The first drafter's tree. The one that steps name is the other's.
    tree: OwnTree,
    /// Nodes of the other's usual tree.
    usual: usize,
    /// Decides where the first does not decline.
    gains: Option<Gains>,
}

impl HandoverDrafter {
    /// `first` reads no hidden states, and drafts `tree` wherever it does not decline.
    pub fn new(first: Box<dyn Drafter>, other: Box<dyn Drafter>, tree: OwnTree) -> Self {
        Self { name: format!("{},else={}", first.name(), other.name()), first, other, tree, usual: 0, gains: None }
    }

    /// Copy in which steps with trees of fewer nodes than these bound the first drafter's tree too.
    pub fn usually(mut self, nodes: usize) -> Self {
        self.usual = nodes;
        self
    }

    /// Copy in which the measured gains decide which one drafts, where steps last as long as is given.
    pub fn measured(self, ratios: StepRatios) -> Self {
        let start = Instant::now();
        self.timed_by(ratios, Box::new(move || start.elapsed()))
    }

    /// As [`Self::measured`], by another clock.
    pub fn timed_by(mut self, ratios: StepRatios, clock: Clock) -> Self {
        self.gains = Some(Gains::new(ratios, clock));
        self
    }

    /// The other drafter drafts.
    fn hand_over(
        &mut self,
        matched: usize,
        root: Token,
        context: &mut DraftContext<'_>,
    ) -> Result<Proposal, DraftError> {
        let proposal = self.other.draft(root, context)?;
        if let Some(gains) = &mut self.gains {
            gains.handed_over(matched, proposal.draft.tree().len());
        }
        Ok(proposal)
    }
}

impl Drop for HandoverDrafter {
    fn drop(&mut self) {
        if let Some(gains) = self.gains.as_ref().filter(|gains| gains.has_drafted()) {
            gains.report(&self.name);
        }
    }
}

impl Drafter for HandoverDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        let (first, other) = (self.first.needs(), self.other.needs());
        Needs {
            hooks: other.hooks,
            feedback: first.feedback.max(other.feedback),
            lends_target: first.lends_target || other.lends_target,
        }
    }

    fn reset(&mut self) {
        self.first.reset();
        self.other.reset();
        self.gains.iter_mut().for_each(Gains::forget_text);
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.gains.iter_mut().for_each(Gains::forget_text);
        let both = [self.first.truncate(length), self.other.truncate(length)];
        both == [true, true]
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        match (&mut self.gains, pass.verified) {
            (Some(gains), Some(verified)) => gains.observe(pass.tokens, verified.next),
            // A prompt, or the next turn of a chat: what was drafted before is not followed into it.
            (Some(gains), None) => gains.forget_text(),
            (None, _) => {}
        }
        self.first.observe(pass)?;
        self.other.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let CoupledTree { coupling, .. } = context.tree;
        let most = context.tree.max_nodes();
        let most = if most < self.usual { most } else { LARGEST };
        self.gains.iter_mut().for_each(Gains::begin);
        // A plain step says nothing about either drafter.
        if context.tree.max_depth() == 0 && self.usual > 1 {
            return Ok(Proposal::root(root));
        }
        let target = context.target.as_mut().map(|target| &mut **target as &mut dyn Target);
        let tree = CoupledTree { tree: &self.tree, coupling };
        let proposal = self.first.draft(root, &mut DraftContext { tree, random: &mut *context.random, target })?;
        if proposal.draft.tree().len() == 1 {
            return self.hand_over(0, root, context);
        }
        let Some(gains) = &mut self.gains else {
            let draft = &proposal.draft;
            let is_large = draft.tree().len() > most;
            return Ok(if is_large { Proposal::list(cut(draft, &order(draft), most)) } else { proposal });
        };
        match gains.choose(proposal.matched, &proposal.draft, most) {
            Some(draft) => Ok(Proposal::list(draft)),
            None => self.hand_over(proposal.matched, root, context),
        }
    }

    fn finished(&mut self, answer: &[Token]) {
        self.first.finished(answer);
        self.other.finished(answer);
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.other.trace(root, drafts)
    }
}

#[cfg(test)]
mod tests;
