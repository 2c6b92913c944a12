//! A target over a retrieved part of its cache, as a target.

use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::RetrievedCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{PassOutput, PassPlan};
use gorgon_model::target::Target;

/// A lent target of which passes read a part of the cache alone. What is committed here are drafts: they are kept in the
/// part while a chain is drafted, and the target's own cache does not change.
pub(super) struct RetrievedTarget<'a> {
    pub target: &'a mut dyn Target,
    pub part: &'a mut RetrievedCache,
}

impl Target for RetrievedTarget<'_> {
    fn len(&self) -> usize {
        self.target.len() + self.part.kept()
    }

    fn context(&self) -> usize {
        self.target.context()
    }

    fn layers(&self) -> usize {
        self.target.layers()
    }

    fn vocab_size(&self) -> usize {
        self.target.vocab_size()
    }

    fn is_host(&self) -> bool {
        self.target.is_host()
    }

    fn check(&self, tokens: &[Token]) -> Result<(), ModelError> {
        self.target.check(tokens)
    }

    fn reserve(&mut self, _: usize) {}

    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        let mask = AttentionMask::Causal { rows: tokens.len() };
        let output = self.verify(&PassPlan::of_tokens(tokens, &mask))?;
        self.commit(&(0..tokens.len()).collect::<PooledVec<_>>())?;
        Ok(output)
    }

    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        self.target.verify_retrieved(self.part, plan)
    }

    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError> {
        match group {
            [(target, plan)] => target.verify(plan),
            // A target is lent to one sequence at a time.
            _ => Err(ModelError::EmptyPrompt),
        }
    }

    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        Ok(self.part.keep(path)?)
    }

    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError> {
        self.target.retrieve(part)
    }

    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        self.target.verify_retrieved(part, plan)
    }

    fn roll_back(&mut self) {
        self.part.drop_uncommitted();
    }

    fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.part.roll_back();
        }
    }

    fn fork(&self, length: usize) -> Box<dyn Target> {
        self.target.fork(length)
    }

    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.target.logits(hidden)
    }

    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.target.top_tokens(hidden, counts)
    }
}
