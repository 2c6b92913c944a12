//! Rows of a cache as burn tensors.

use super::Placing;
#[cfg(feature = "gpu")]
use super::cube;
use crate::partial_sums::PartialSums;
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor};

/// Adds up the parts of projections and their bias, splits them into heads, normalises and rotates queries and keys,
/// and writes keys and values of layer `layer` to the slots of the uncommitted rows, each sequence's to its cache.
/// Returns the queries.
///
/// # Shapes
/// `qkv [1, R, (heads + 2 · kv_heads) · head_dim]`, result `[1, R, heads · head_dim]`, both with the padded rows of all
/// `tables`, which are [`PassTable::joined`].
///
/// # Panics
/// If the tensors are not on a GPU, or there are not as many caches as tables.
pub fn place(
    placing: &Placing<'_>,
    qkv: &PartialSums,
    caches: &[&Tensor<4>],
    layer: usize,
    tables: &[&PassTable],
) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    {
        cube::place(placing, qkv, caches, layer, tables)
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (placing, qkv, caches, layer, tables);
        crate::device::absent()
    }
}

/// Moves rows of a path together in every layer, in one launch: uncommitted row `path[i]` goes to slot `prefix + i`.
///
/// # Shapes
/// `cache [2 · layers, kv_heads, capacity, head_dim]`; `path [2 + n] = [prefix, length, rows..]` with
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
