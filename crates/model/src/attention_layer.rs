//! An attention alone on a residual stream, outside the decoder, with a cache of its own.

use crate::attention::{Attention, Pass, pad, unpad};
use crate::cache::{CacheError, KvCache, LayerKv};
use crate::config::ModelConfig;
use crate::device::Compute;
use crate::hidden_states::HiddenStates;
use crate::layer::check_rows;
use crate::layout::LayerNames;
use crate::linear::Loader;
use crate::norm::Norm;
use crate::rope::Rope;
use crate::weights::{Checkpoint, WeightsError};
use gorgon_core::PooledVec;
use gorgon_kernels::tree_attention::AttentionMask;
use smallvec::SmallVec;
use std::sync::Arc;

/// `x + Attn(norm(x))`: a decoder layer without its feed-forward network.
#[derive(Debug)]
pub struct DraftAttention {
    config: ModelConfig,
    compute: Compute,
    norm: Norm,
    attention: Attention,
    /// Shared by all of its caches.
    rope: Arc<Rope>,
}

impl DraftAttention {
    /// Loads a norm and an attention; `prefix` is what their tensors' names start with, the last dot included.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read.
    pub fn load(
        checkpoint: &Checkpoint,
        config: ModelConfig,
        prefix: &str,
        compute: &Compute,
    ) -> Result<Self, WeightsError> {
        let (loader, names) = (Loader { checkpoint, compute }, LayerNames::with_prefix(&config, prefix));
        let norm = Norm::load(&loader, &names.input_norm, config.norm_plus_one)?;
        let attention = Attention::load(&loader, &config, &names, 0)?;
        let rope = Rope::new(&config.rope);
        Ok(Self { config, compute: compute.clone(), norm, attention, rope })
    }

    /// A cache with memory for `capacity` rows; it grows where more are reserved.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, &self.rope, usize::MAX, capacity)
    }

    /// One pass over rows of the residual stream, the last ones that `cache` has room reserved for.
    ///
    /// # Shapes
    /// `x [rows, d]`, result the same.
    ///
    /// # Errors
    /// When the rows are not the reserved ones.
    pub fn forward(
        &self,
        x: &HiddenStates,
        mask: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, CacheError> {
        check_rows(x.rows(), mask, cache)?;
        let (layers, view) = cache.parts();
        let pass = [Pass::new(&self.config, &view, mask, &[])];
        let mut kvs: SmallVec<[&mut LayerKv; 1]> = layers.iter_mut().collect();
        let x = pad(x.clone(), &pass[0]);
        let attended = self.attention.forward(&self.norm.forward(&x, self.config.norm_eps), &pass, &mut kvs);
        Ok(unpad(attended.added_to(x), &pass))
    }

    /// Commits the keys and values of rows after the committed ones, and computes nothing else of them.
    ///
    /// # Shapes
    /// `x [rows, d]`.
    ///
    /// # Errors
    /// When rows are uncommitted.
    pub fn commit(&self, x: &HiddenStates, cache: &mut KvCache) -> Result<(), CacheError> {
        let rows = x.rows();
        cache.reserve(rows)?;
        let mask = AttentionMask::Causal { rows };
        let (layers, view) = cache.parts();
        let pass = Pass::new(&self.config, &view, &mask, &[]);
        let read = self.norm.forward(&pad(x.clone(), &pass), self.config.norm_eps);
        layers.iter_mut().for_each(|kv| self.attention.place(&read, &pass, kv));
        let path: PooledVec<usize> = (0..rows).collect();
        cache.commit(&path)
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.attention.bytes()
    }
}
