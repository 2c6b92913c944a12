//! Attention over a cache on a GPU, read in place.

use super::{AttentionSpec, PassTable};
use burn::tensor::Tensor;

/// Attention of the uncommitted rows over the slots of a cache that they see, read in place: grouped queries, a sliding
/// window, a soft cap, sums in `f32` whatever the storage.
///
/// # Shapes
/// `q [1, R, heads · head_dim]` with the padded rows of `pass_table`;
/// `cache [2 · layers, kv_heads, capacity, head_dim]` with the keys of layer `l` at `2 l` and its values at `2 l + 1`,
/// in the format of `q`; result as `q`.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn attend_cached(
    spec: &AttentionSpec,
    q: &Tensor<3>,
    cache: &Tensor<4>,
    layer: usize,
    pass_table: &PassTable,
) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    {
        let out =
            super::cube::attend(spec, &crate::device::floats(q), &crate::device::floats(cache), layer, pass_table);
        crate::device::float_tensor::<3>(out).reshape([1, pass_table.padded_rows(), spec.heads * spec.head_dim])
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (spec, q, cache, layer, pass_table);
        crate::device::absent()
    }
}
