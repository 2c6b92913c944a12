//! Rows of a cache on a GPU: new ones are written where they belong, accepted ones are moved together, all layers at
//! once.
//!
//! A cache is one tensor `[2 · layers, kv_heads, capacity, head_dim]`, the keys of layer `l` at `2 l` and its values at
//! `2 l + 1`.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
pub mod reference;

use crate::tree_attention::{AttentionSpec, Flight};
use burn::tensor::{Int, Tensor};

/// What stands between a projection and the cache.
#[derive(Clone, Copy, Debug)]
pub struct Placing<'a> {
    /// Sizes of the attention.
    pub spec: &'a AttentionSpec,
    /// Norms over query and key heads, `[head_dim]` each, in `f32`, with their epsilon.
    pub norms: Option<(&'a Tensor<1>, &'a Tensor<1>, f32)>,
    /// Cosines and sines of every position, `[positions, 2, r / 2]` with `r ≤ head_dim`, in `f32`.
    pub angles: &'a Tensor<3>,
}

/// Splits projections into heads, normalises and rotates queries and keys, and writes keys and values of layer `layer`
/// to the slots of the rows in flight. Returns the queries.
///
/// # Shapes
/// `qkv [1, R, (heads + 2 · kv_heads) · head_dim]`, result `[1, R, heads · head_dim]`, both with padded rows.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn place(placing: &Placing<'_>, qkv: &Tensor<3>, cache: &Tensor<4>, layer: usize, flight: &Flight) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    {
        cube::place(placing, qkv, cache, layer, flight)
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (placing, qkv, cache, layer, flight);
        crate::device::absent()
    }
}

/// Moves rows of a path together in every layer, in one launch: row `path[i]` in flight goes to slot `prefix + i`.
///
/// # Shapes `cache [2 · layers, kv_heads, capacity, head_dim]`; `path [2 + n] = [prefix, length, rows..]` with
/// increasing rows, of which `length ≤ n` count.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn gather(cache: &Tensor<4>, path: &Tensor<1, Int>) {
    #[cfg(feature = "gpu")]
    {
        cube::gather(cache, path);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (cache, path);
        crate::device::absent()
    }
}
