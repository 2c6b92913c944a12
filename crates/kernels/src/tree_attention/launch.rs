//! Tree attention of burn tensors (devices other than the CPU).

use super::{AttentionSpec, Visible};
use burn::tensor::{DType, Device, Tensor, TensorData, activation};

/// Scores of what a row must not see; far below any score, and finite in `f16` and `bf16`.
const HIDDEN: f32 = -30_000.0;

/// The additive mask of a forward pass: 0 where a row sees a slot, a large negative number where not.
///
/// # Shapes
/// `[rows, slots]` with `slots ≥ prefix + rows in flight`; these lie in the slots from `prefix` on.
pub fn mask(visible: &Visible, prefix: usize, slots: usize, window: Option<usize>, device: &Device) -> Tensor<2> {
    let rows = visible.rows();
    let mut data = vec![HIDDEN; rows * slots];
    for (row, data) in data.chunks_exact_mut(slots).enumerate() {
        let count = visible.count(row);
        let start = (prefix + count).saturating_sub(window.unwrap_or(usize::MAX));
        data[start.min(prefix)..prefix].fill(0.0);
        for index in start.saturating_sub(prefix)..count {
            data[prefix + visible.nth(row, index)] = 0.0;
        }
    }
    Tensor::from_data(TensorData::new(data, [rows, slots]), device)
}

/// Attention over cached keys and values under an additive mask; scores and softmax in `f32`.
///
/// # Shapes
/// `q [batch, heads, rows, head_dim]`, `k` and `v` `[batch, kv_heads, slots, head_dim]`, `mask [rows, slots]`, result
/// as `q`.
pub fn attend(spec: &AttentionSpec, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, mask: &Tensor<2>) -> Tensor<4> {
    let [batch, heads, rows, d] = q.dims();
    let slots = k.dims()[2];
    let (kv_heads, group) = (spec.kv_heads, heads / spec.kv_heads);
    let dtype = q.dtype();
    // Query heads of one key/value head become extra rows: keys and values are read once and never repeated.
    let q = q.reshape([batch, kv_heads, group * rows, d]);
    let mut scores = q.matmul(k.swap_dims(2, 3)).cast(DType::F32) * spec.scale;
    if let Some(cap) = spec.soft_cap {
        scores = crate::activation::soft_cap(scores, cap);
    }
    let scores = scores.reshape([batch, heads, rows, slots]) + mask.clone().unsqueeze::<4>();
    let weights = activation::softmax(scores, 3).cast(dtype);
    weights.reshape([batch, kv_heads, group * rows, slots]).matmul(v).reshape([batch, heads, rows, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mask of a level is the level's rows of the whole tree's mask.
    #[test]
    fn masks_of_levels_are_parts_of_the_whole_mask() {
        let device = Device::flex();
        let paths: [&[usize]; 6] = [&[0], &[1], &[0, 2], &[0, 3], &[1, 4], &[0, 3, 5]];
        let whole = Visible::from_paths(paths);
        for window in [None, Some(2), Some(5)] {
            let all = mask(&whole, 3, 12, window, &device);
            for (first, end) in [(0, 2), (2, 5), (5, 6)] {
                let level = mask(&Visible::after(first, paths[first..end].iter().copied()), 3, 12, window, &device);
                let want = all.clone().narrow(0, first, end - first);
                assert_eq!(level.into_data(), want.into_data(), "{window:?} {first}");
            }
        }
    }
}
