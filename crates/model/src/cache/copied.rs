//! Rows of another cache that hold the same tokens.

use super::{CacheError, KvCache, LayerKv};

impl KvCache {
    /// Commits copies of another cache's rows behind its own ones, up to `length` tokens. Whoever calls knows that both
    /// hold the same text of one model. False, and nothing changes, where either is not on the CPU, holds a source or
    /// uncommitted rows, or the other one is shorter.
    ///
    /// # Errors
    /// When so many tokens do not fit.
    pub(crate) fn copy_rows(&mut self, other: &Self, length: usize) -> Result<bool, CacheError> {
        let is_free = |cache: &Self| cache.compute.is_host() && cache.source_tokens == 0 && cache.reserved.is_none();
        let (from, fits) = (self.committed, length >= self.committed && length <= other.committed);
        if !is_free(self) || !is_free(other) || !fits || self.layers.len() != other.layers.len() {
            return Ok(false);
        }
        self.check_context(length - from)?;
        self.reserve(length - from)?;
        for layers in self.layers.iter_mut().zip(&other.layers) {
            if let (LayerKv::Host(own), LayerKv::Host(other)) = layers {
                own.copy_slots(other, from..length);
            }
        }
        self.committed = length;
        self.roll_back();
        Ok(true)
    }
}
