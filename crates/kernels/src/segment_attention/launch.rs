//! Segment attention of burn tensors.

use super::Segments;
use super::kernel::{self, Operands};
use crate::differentiable::{self, Differentiable, Operand};
use crate::rope;
use burn::tensor::{Tensor, TensorData, activation};

/// Causal attention within segments, with gradients where the operands are tracked.
///
/// # Shapes
/// `q [rows, heads · d]`, `k` and `v` `[rows, kv_heads · d]`, all before the rotary embedding; result as `q`.
pub fn segment_attention(spec: &Segments, q: Tensor<2>, k: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
    let shape = q.dims();
    match (Operand::of(&q), Operand::of(&k), Operand::of(&v)) {
        (Some(a), Some(b), Some(c)) => differentiable::apply(Fused(spec.clone()), [a, b, c], shape),
        _ => composed(spec, q, k, v),
    }
}

#[derive(Clone, Debug)]
struct Fused(Segments);

impl Differentiable<3> for Fused {
    fn forward(&self, [q, k, v]: [&[f32]; 3]) -> Vec<f32> {
        kernel::forward(&self.0, Operands { q, k, v })
    }

    fn backward(&self, [q, k, v]: [&[f32]; 3], gradient: &[f32]) -> [Vec<f32>; 3] {
        kernel::backward(&self.0, Operands { q, k, v }, gradient)
    }
}

/// Composition of burn's operations, for other devices: one masked square over all rows.
fn composed(spec: &Segments, q: Tensor<2>, k: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
    let ([n, _], d, device) = (q.dims(), spec.head_dim, q.device());
    let positions: Vec<usize> = spec.rows.iter().flat_map(|rows| 0..rows.len()).collect();
    let half = d / 2;
    let table = |from: &[f32]| {
        let values: Vec<f32> = positions.iter().flat_map(|&p| &from[p * half..][..half]).copied().collect();
        Tensor::<2>::from_data(TensorData::new(values, [n, half]), &device)
    };
    let (cos, sin) = (table(&spec.angles.0), table(&spec.angles.1));
    let mut mask = vec![f32::NEG_INFINITY; n * n];
    for rows in spec.rows.iter() {
        rows.clone().for_each(|i| mask[i * n + rows.start..=i * n + i].fill(0.0));
    }
    let mask = Tensor::<2>::from_data(TensorData::new(mask, [n, n]), &device).unsqueeze::<4>();
    let split = |x: Tensor<2>, heads: usize| x.reshape([1, n, heads, d]).swap_dims(1, 2);
    let group = spec.heads / spec.kv_heads;
    let spread = |x: Tensor<4>| {
        let wide = x.unsqueeze_dim::<5>(2).expand([1, spec.kv_heads, group, n, d]);
        wide.reshape([1, spec.heads, n, d])
    };
    let q = rope::rotate(split(q, spec.heads), &cos, &sin);
    let k = spread(rope::rotate(split(k, spec.kv_heads), &cos, &sin));
    let v = spread(split(v, spec.kv_heads));
    let scores = (q * spec.scale()).matmul(k.swap_dims(2, 3)) + mask;
    activation::softmax(scores, 3).matmul(v).swap_dims(1, 2).reshape([n, spec.heads * d])
}

#[cfg(test)]
mod tests;
