//! Medusa heads as a drafter.

use super::model::MedusaModel;
use crate::by_depth::{LogitsByDepth, RankedByDepth, ranks};
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::trace::{Guess, Trace};
use gorgon_core::Token;
use gorgon_core::tree::TreeBuilder;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts with the state at the last committed token: head `k` names the tokens of depth `k`, whatever their parents
/// are.
#[derive(Debug)]
pub struct MedusaDrafter {
    model: Arc<MedusaModel>,
    /// After the final norm at the last committed token.
    hidden: Option<HiddenStates>,
}

impl MedusaDrafter {
    /// A drafter with these heads.
    pub fn new(model: MedusaModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with heads that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<MedusaModel>) -> Self {
        Self { model, hidden: None }
    }

    /// The heads.
    pub fn model(&self) -> &MedusaModel {
        &self.model
    }
}

impl Drafter for MedusaDrafter {
    fn name(&self) -> &str {
        "medusa"
    }

    fn reset(&mut self) {
        self.hidden = None;
    }

    fn truncate(&mut self, _: usize) -> bool {
        // The next token that is read brings its own state.
        self.hidden = None;
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.hidden = pass.last_hidden();
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let tree = &context.tree;
        let heads = tree.max_depth().min(self.model.heads());
        let Some(hidden) = self.hidden.as_ref().filter(|_| heads > 0) else { return Ok(Proposal::root(root)) };
        let counts = ranks(heads, |depth| tree.ranks_at(depth));
        let top_tokens = counts.as_ref().and_then(|counts| self.model.top_tokens(hidden, counts));
        let draft = match counts.zip(top_tokens) {
            Some((counts, top_tokens)) => tree.build(root, &mut RankedByDepth::new(&top_tokens, &counts))?,
            None => {
                let logits = self.model.logits(hidden, heads);
                tree.build(root, &mut LogitsByDepth { logits: &logits, vocab: self.model.vocab_size() })?
            }
        };
        Ok(Proposal::list(draft))
    }

    fn trace(&mut self, _: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(hidden) = &self.hidden else { return Ok(None) };
        let states = self.model.states(hidden, drafts.len() + 1);
        let (d, logits) = (states.width(), self.model.project(&states).into_values());
        let states = states.into_values();
        let rows = states.chunks_exact(d).zip(logits.chunks_exact(self.model.vocab_size()));
        let guesses = rows.map(|(state, row)| Guess { state: state.to_vec(), logits: row.to_vec() }).collect();
        Ok(Some(Trace { input: hidden.clone().into_values().into_vec(), guesses }))
    }
}
