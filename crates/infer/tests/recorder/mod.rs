//! A drafter that is watched.

use gorgon_core::Token;
use gorgon_core::tree::{TokenTree, TreeBuilder};
use gorgon_draft::drafter::{DraftError, Drafter, Needs, Proposal, VerifiedPass};
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

    fn observe(&mut self, committed: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(committed)
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        let proposal = self.inner.propose(root, builder)?;
        self.trees.lock().unwrap().push(proposal.draft.tree().clone());
        Ok(proposal)
    }
}
