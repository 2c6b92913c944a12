//! Noting where the target corrected a drafter (online speculative decoding, Liu et al., 2023,
//! <https://arxiv.org/abs/2310.07177>), so that the drafter can be fitted there.
//!
//! A position counts as corrected if its token was drafted and every draft was rejected: the first rejection of a step.
//! A step whose drafts were all accepted corrects nothing, and neither does one that the end of the text cut off.

use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass, VerifiedTree};
use crate::trace::Trace;
use gorgon_core::Token;
use std::sync::Arc;

/// Receives texts with the positions at which they were corrected.
pub trait Corrections: Send + Sync {
    /// A text is over, or goes another way: its tokens, and the corrected positions, increasing and below its length.
    /// There is at least one.
    fn take(&self, text: &[Token], corrected: &[usize]);
}

/// Another drafter, whose corrections are noted. It drafts the same.
pub struct CorrectedDrafter<D: Drafter> {
    inner: D,
    log: Arc<dyn Corrections>,
    text: Vec<Token>,
    corrected: Vec<usize>,
    /// The token after the text, where it corrected drafts and is not committed.
    next: Option<Token>,
}

impl<D: Drafter> CorrectedDrafter<D> {
    /// Notes the corrections of `inner`.
    pub fn new(inner: D, log: Arc<dyn Corrections>) -> Self {
        Self { inner, log, text: vec![], corrected: vec![], next: None }
    }

    /// Hands the text over, if it was corrected since it was last.
    fn hand_over(&mut self) {
        let next = self.next.take();
        if self.corrected.is_empty() {
            return;
        }
        self.text.extend(next);
        self.log.take(&self.text, &self.corrected);
        self.text.truncate(self.text.len() - usize::from(next.is_some()));
        self.corrected.clear();
    }

    /// Whether the token after a path was drafted, and all its drafts were wrong.
    fn is_corrected(verified: &VerifiedTree<'_>) -> bool {
        let Some(&last) = verified.path.last() else { return false };
        let mut drafts = verified.tree.children(last).map(|child| verified.tree.token(child)).peekable();
        drafts.peek().is_some() && drafts.all(|draft| draft != verified.next)
    }
}

impl<D: Drafter> Drop for CorrectedDrafter<D> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl<D: Drafter> Drafter for CorrectedDrafter<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.hand_over();
        self.text.clear();
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        if length < self.text.len() {
            self.hand_over();
            self.text.truncate(length);
        }
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (Some(next), Some(&first)) = (self.next, pass.tokens.first()) {
            if first != next {
                self.hand_over();
            }
            self.next = None;
        }
        self.text.extend_from_slice(pass.tokens);
        if let Some(verified) = pass.verified.filter(Self::is_corrected) {
            self.corrected.push(self.text.len());
            self.next = Some(verified.next);
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.inner.draft(root, context)
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }
}

#[cfg(test)]
mod tests;
