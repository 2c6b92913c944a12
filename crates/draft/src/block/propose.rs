//! A block drafter: the cache of the context, and trees from one block.

use super::model::BlockModel;
use crate::by_depth::{LogitsByDepth, RankedByDepth, ranks};
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::trace::{Guess, Trace};
use gorgon_core::Token;
use gorgon_core::tree::TreeBuilder;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts one block at the last emitted token: slot `k` names the tokens of depth `k`, whatever their parents are. A
/// selector weighs them by the token before.
///
/// The caches hold the context of committed tokens. A block's own rows are dropped after each draft.
#[derive(Debug)]
pub struct BlockDrafter {
    model: Arc<BlockModel>,
    /// One per layer.
    caches: Vec<KvCache>,
    /// The context feature of the last committed token.
    last: Option<HiddenStates>,
}

impl BlockDrafter {
    /// A drafter with this model.
    pub fn new(model: BlockModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with a model that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<BlockModel>) -> Self {
        let caches = model.new_caches();
        Self { model, caches, last: None }
    }

    /// The model.
    pub fn model(&self) -> &BlockModel {
        &self.model
    }

    /// Committed tokens in the cache.
    pub fn cached(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }

    /// States of the first `depth` drafted slots; `None` before the first committed token.
    fn states(&mut self, root: Token, depth: usize) -> Result<Option<HiddenStates>, ModelError> {
        if self.cached() == 0 || depth == 0 {
            return Ok(None);
        }
        let states = self.model.block(root, &mut self.caches)?;
        Ok(Some(if depth < states.rows() { states.narrow(0, depth) } else { states }))
    }
}

impl Drafter for BlockDrafter {
    fn name(&self) -> &str {
        "block"
    }

    fn needs(&self) -> Needs {
        self.model.needs()
    }

    fn reset(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.truncate(0));
        self.last = None;
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.caches.iter_mut().for_each(|cache| cache.truncate(length));
        self.last = None;
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.tokens.is_empty() {
            return Ok(());
        }
        let context = self.model.context(pass.output, pass.rows)?;
        self.model.commit(&context, &mut self.caches)?;
        self.last = Some(context.narrow(context.rows() - 1, 1));
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let tree = &context.tree;
        let depth = tree.max_depth().min(self.model.slots() - 1);
        let Some(states) = self.states(root, depth)? else { return Ok(Proposal::root(root)) };
        if let Some(selector) = self.model.selector() {
            let (logits, vocab) = (self.model.logits(&states), self.model.vocab_size());
            let draft = tree.build(root, &mut selector.candidates(&states, &logits, vocab))?;
            return Ok(Proposal::list(draft));
        }
        let counts = ranks(depth, |depth| tree.ranks_at(depth));
        let top_tokens = counts.as_ref().and_then(|counts| self.model.top_tokens(&states, counts));
        let draft = match counts.zip(top_tokens) {
            Some((counts, top_tokens)) => tree.build(root, &mut RankedByDepth::new(&top_tokens, &counts))?,
            None => {
                let logits = self.model.logits(&states);
                tree.build(root, &mut LogitsByDepth { logits: &logits, vocab: self.model.vocab_size() })?
            }
        };
        Ok(Proposal::list(draft))
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(input) = self.last.clone() else { return Ok(None) };
        let depth = (drafts.len() + 1).min(self.model.slots() - 1);
        let Some(states) = self.states(root, depth)? else { return Ok(None) };
        let (d, logits) = (states.width(), self.model.logits(&states));
        let states = states.into_values();
        let rows = states.chunks_exact(d).zip(logits.chunks_exact(self.model.vocab_size()));
        let guesses = rows.map(|(state, row)| Guess { state: state.to_vec(), logits: row.to_vec() }).collect();
        Ok(Some(Trace { input: input.into_values().into_vec(), guesses }))
    }
}
