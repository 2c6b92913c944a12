//! Noting where the target corrected a drafter (online speculative decoding, Liu et al., 2023,
//! <https://arxiv.org/abs/2310.07177>), so that the drafter can be fitted there.
//!
//! A position counts as corrected if its token was drafted and every draft was rejected: the first rejection of a step.
//! A step whose drafts were all accepted corrects nothing, and neither does one that the end of the text cut off. Answers
//! without corrections are noted too: where drafting paused, nothing could be corrected.

use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass, VerifiedTree};
use crate::trace::Trace;
use gorgon_core::Token;
use std::sync::Arc;

/// A text with the positions at which it was corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrectedText<'a> {
    /// The tokens.
    pub ids: &'a [Token],
    /// Whether the target wrote each of them, in answer to a prompt.
    pub own: &'a [bool],
    /// The corrected positions, increasing and below the text's length. All are the target's.
    pub corrected: &'a [usize],
}

/// Receives texts with the positions at which they were corrected.
pub trait Corrections: Send + Sync {
    /// A text with new answers is over, or goes another way.
    fn take(&self, text: CorrectedText<'_>);
}

/// Another drafter, whose corrections are noted. It drafts the same.
pub struct CorrectedDrafter<D: Drafter> {
    inner: D,
    log: Arc<dyn Corrections>,
    text: Vec<Token>,
    /// Whether the target wrote each of them.
    own: Vec<bool>,
    corrected: Vec<usize>,
    /// The target's token after the text, which is not committed yet.
    next: Option<Token>,
    /// Whether the target wrote something since the text was handed over.
    is_new: bool,
}

impl<D: Drafter> CorrectedDrafter<D> {
    /// Notes the corrections of `inner`.
    pub fn new(inner: D, log: Arc<dyn Corrections>) -> Self {
        Self { inner, log, text: vec![], own: vec![], corrected: vec![], next: None, is_new: false }
    }

    /// Hands the text over, if there is something new in it.
    fn hand_over(&mut self) {
        let next = self.next.take();
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let length = self.text.len();
        self.text.extend(next);
        self.own.resize(self.text.len(), true);
        self.log.take(CorrectedText { ids: &self.text, own: &self.own, corrected: &self.corrected });
        self.keep(length);
        self.corrected.clear();
    }

    /// Forgets tokens from `length` on.
    fn keep(&mut self, length: usize) {
        self.text.truncate(length);
        self.own.truncate(length);
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

    fn reads(&self, needed: Feedback) -> Feedback {
        self.inner.reads(needed)
    }

    fn reset(&mut self) {
        self.hand_over();
        self.keep(0);
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        if length < self.text.len() {
            self.hand_over();
            self.keep(length);
        }
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (Some(next), Some(&first)) = (self.next, pass.tokens.first()) {
            // A prompt goes on in another way than the answer would have.
            if first != next && self.corrected.last() == Some(&self.text.len()) {
                self.corrected.pop();
            }
            self.next = None;
        }
        self.text.extend_from_slice(pass.tokens);
        self.own.resize(self.text.len(), pass.verified.is_some());
        if let Some(verified) = pass.verified {
            (self.next, self.is_new) = (Some(verified.next), true);
            if Self::is_corrected(&verified) {
                self.corrected.push(self.text.len());
            }
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.inner.draft(root, context)
    }

    fn finished(&mut self, answer: &[Token]) {
        self.inner.finished(answer);
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }
}

#[cfg(test)]
mod tests;
