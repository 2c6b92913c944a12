//! A drafter that is watched.

use gorgon_core::Token;
use gorgon_core::tree::TokenTree;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use std::sync::{Arc, Mutex};

/// Writes down what another drafter proposes.
pub struct Recorder {
    pub inner: Box<dyn Drafter>,
    pub trees: Arc<Mutex<Vec<TokenTree>>>,
}

impl Drafter for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, committed: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(committed)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        self.trees.lock().unwrap().push(proposal.draft.tree().clone());
        Ok(proposal)
    }
}
