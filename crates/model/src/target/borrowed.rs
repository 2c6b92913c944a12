//! A target behind a reference is a target.

use super::Target;
use crate::cache::RetrievedCache;
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::pass::{PassOutput, PassPlan};
use gorgon_core::{PooledVec, Token};

impl<T: Target> Target for &mut T {
    fn reserve(&mut self, rows: usize) {
        (**self).reserve(rows);
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn context(&self) -> usize {
        (**self).context()
    }

    fn layers(&self) -> usize {
        (**self).layers()
    }

    fn vocab_size(&self) -> usize {
        (**self).vocab_size()
    }

    fn is_host(&self) -> bool {
        (**self).is_host()
    }

    fn check(&self, tokens: &[Token]) -> Result<(), ModelError> {
        (**self).check(tokens)
    }

    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        (**self).extend(tokens)
    }

    fn has_encoder(&self) -> bool {
        (**self).has_encoder()
    }

    fn read_source(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        (**self).read_source(tokens)
    }

    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        (**self).verify(plan)
    }

    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError> {
        let mut targets: Vec<(&mut T, PassPlan<'_>)> =
            group.iter_mut().map(|(target, plan)| (&mut ***target, plan.clone())).collect();
        T::verify_together(&mut targets)
    }

    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        (**self).commit(path)
    }

    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError> {
        (**self).retrieve(part)
    }

    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        (**self).verify_retrieved(part, plan)
    }

    fn roll_back(&mut self) {
        (**self).roll_back();
    }

    fn truncate(&mut self, length: usize) {
        (**self).truncate(length);
    }

    fn copy_rows(&mut self, other: &Self, length: usize) -> Result<bool, ModelError> {
        (**self).copy_rows(&**other, length)
    }

    fn fork(&self, length: usize) -> Box<dyn Target> {
        (**self).fork(length)
    }

    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        (**self).logits(hidden)
    }

    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        (**self).top_tokens(hidden, counts)
    }
}
