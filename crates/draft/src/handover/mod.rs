//! Two drafters: the other one drafts where the first has nothing to draft.
//!
//! The first is one that goes by the text alone and declines, with a lone root, where it is not sure enough: where its
//! match is shorter than a threshold. So the choice is made before any token is drawn, and each proposal is accepted by
//! the law of the drafter that made it. Both observe all committed text.

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::trace::Trace;
use gorgon_core::Token;
use gorgon_core::tree::{OwnError, OwnTree};
use gorgon_model::target::Target;

/// Tokens of the shortest match that the first drafts for, unless told otherwise (SAM-Decoding's).
pub const THRESHOLD: usize = 5;
/// Nodes and depth of the first drafter's trees (SAM-Decoding's beside another drafter).
const TREE: (usize, usize) = (40, 39);

/// The tree of a first drafter.
///
/// # Errors
/// When it has no size that a tree may have.
pub fn tree() -> Result<OwnTree, OwnError> {
    OwnTree::new(TREE.0, TREE.1)
}

/// A drafter, and another one for what it declines.
pub struct HandoverDrafter {
    name: String,
    first: Box<dyn Drafter>,
    other: Box<dyn Drafter>,
    /// The first drafter's tree. The one that steps name is the other's.
    tree: OwnTree,
}

impl HandoverDrafter {
    /// `first` reads no hidden states, and drafts `tree`.
    pub fn new(first: Box<dyn Drafter>, other: Box<dyn Drafter>, tree: OwnTree) -> Self {
        Self { name: format!("{},else={}", first.name(), other.name()), first, other, tree }
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
    }

    fn truncate(&mut self, length: usize) -> bool {
        let both = [self.first.truncate(length), self.other.truncate(length)];
        both == [true, true]
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.first.observe(pass)?;
        self.other.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let CoupledTree { coupling, .. } = context.tree;
        let target = context.target.as_mut().map(|target| &mut **target as &mut dyn Target);
        let tree = CoupledTree { tree: &self.tree, coupling };
        let proposal = self.first.draft(root, &mut DraftContext { tree, random: &mut *context.random, target })?;
        if proposal.draft.tree().len() > 1 { Ok(proposal) } else { self.other.draft(root, context) }
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.other.trace(root, drafts)
    }
}

#[cfg(test)]
mod tests;
