//! A draft model as a target.

use gorgon_core::dist::Row;
use gorgon_core::{PooledVec, Token};
use gorgon_draft::draft_model::DraftModel;
use gorgon_model::cache::RetrievedCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{PassOutput, PassPlan};
use gorgon_model::target::{DecoderTarget, Target};

/// A draft model whose text is decoded. It emits only tokens that its own target has too. A row that is no distribution
/// counts as the uniform one: an error in the midst of a step would hide tokens whose law is known, and which tokens are
/// hidden would depend on them.
pub(super) struct DraftTarget {
    model: DecoderTarget,
    /// Tokens that it can emit.
    vocab: usize,
}

impl DraftTarget {
    /// With an empty cache, which grows as it needs.
    pub fn new(model: &DraftModel, hooks: Hooks) -> Self {
        let context = model.decoder().config().max_positions;
        Self { model: DecoderTarget::new(model.decoder().clone(), context, hooks), vocab: model.vocab_size() }
    }

    fn narrow(&self, logits: PooledVec<f32>) -> PooledVec<f32> {
        let own = self.model.vocab_size();
        let is_whole = own == self.vocab && logits.chunks_exact(own).all(|row| Row::Logits(row).is_valid());
        if is_whole {
            return logits;
        }
        let uniform = PooledVec::of(0.0, self.vocab);
        let valid = |row: &[f32]| Row::Logits(&row[..self.vocab]).is_valid();
        let rows = logits.chunks_exact(own);
        rows.flat_map(|row| if valid(row) { &row[..self.vocab] } else { &uniform }).copied().collect()
    }
}

impl Target for DraftTarget {
    fn len(&self) -> usize {
        self.model.len()
    }

    fn context(&self) -> usize {
        self.model.context()
    }

    fn layers(&self) -> usize {
        self.model.layers()
    }

    fn vocab_size(&self) -> usize {
        self.vocab
    }

    fn is_host(&self) -> bool {
        self.model.is_host()
    }

    fn check(&self, tokens: &[Token]) -> Result<(), ModelError> {
        self.model.check(tokens)
    }

    fn reserve(&mut self, rows: usize) {
        self.model.reserve(rows);
    }

    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        self.model.extend(tokens)
    }

    fn has_encoder(&self) -> bool {
        self.model.has_encoder()
    }

    fn read_source(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        self.model.read_source(tokens)
    }

    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        self.model.verify(plan)
    }

    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError> {
        let models = group.iter_mut().map(|(target, plan)| (&mut target.model, plan.clone()));
        DecoderTarget::verify_together(&mut models.collect::<Vec<_>>())
    }

    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        self.model.commit(path)
    }

    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError> {
        self.model.retrieve(part)
    }

    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        self.model.verify_retrieved(part, plan)
    }

    fn roll_back(&mut self) {
        self.model.roll_back();
    }

    fn truncate(&mut self, length: usize) {
        self.model.truncate(length);
    }

    fn fork(&self, length: usize) -> Box<dyn Target> {
        Box::new(Self { model: self.model.copied(length), vocab: self.vocab })
    }

    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.narrow(self.model.logits(hidden))
    }

    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        // Rows that are no tokens of the target's may be among the top ones.
        if self.model.vocab_size() == self.vocab { self.model.top_tokens(hidden, counts) } else { None }
    }
}
