//! Rows of a cache on a GPU: new ones are written where they belong, accepted ones are moved together, all layers at
//! once.
//!
//! A cache is one tensor `[2 · layers, kv_heads, capacity, head_dim]`, the keys of layer `l` at `2 l` and its values at
//! `2 l + 1`.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod launch;
pub mod reference;

pub use launch::{gather, place};

use crate::tree_attention::AttentionSpec;
use burn::tensor::Tensor;

/// Operations between a projection and the cache.
#[derive(Clone, Copy, Debug)]
pub struct Placing<'a> {
    /// Sizes of the attention.
    pub spec: &'a AttentionSpec,
    /// Bias of the projection, `[(heads + 2 · kv_heads) · head_dim]`, which is not added yet.
    pub bias: Option<&'a Tensor<1>>,
    /// Norms over query and key heads, `[head_dim]` each, in `f32`, with their epsilon.
    pub norms: Option<(&'a Tensor<1>, &'a Tensor<1>, f32)>,
    /// Cosines and sines of every position, `[positions, 2, r / 2]` with `r ≤ head_dim`, in `f32`.
    pub angles: &'a Tensor<3>,
}
