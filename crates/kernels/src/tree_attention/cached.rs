//! Attention over caches on a GPU, read in place.

use super::{AttentionSpec, PassTable};
use burn::tensor::Tensor;

/// Attention of the uncommitted rows of some sequences, each over the slots of its cache that its rows see: grouped
/// queries, a sliding window, a soft cap, sums in `f32` whatever the storage. Eight sequences take two launches, and a
/// sequence's result has the same bits alone and beside others.
///
/// # Shapes
/// `q [1, R, heads · head_dim]` with the padded rows of all `tables`, which are [`PassTable::joined`];
/// `caches [2 · layers, kv_heads, capacity, head_dim]` with the keys of layer `l` at `2 l` and its values at `2 l + 1`,
/// in the format of `q`; result as `q`.
///
/// # Panics
/// If the tensors are not on a GPU, or there are not as many caches as tables.
pub fn attend_cached(
    spec: &AttentionSpec,
    q: &Tensor<3>,
    caches: &[&Tensor<4>],
    layer: usize,
    tables: &[&PassTable],
) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    {
        let rows = q.dims()[1];
        let out = super::launch::attend(spec, &crate::device::floats(q), caches, layer, tables);
        crate::device::float_tensor::<3>(out).reshape([1, rows, spec.heads * spec.head_dim])
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (spec, q, caches, layer, tables);
        crate::device::absent()
    }
}
