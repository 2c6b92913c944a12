//! Unrolled attention of burn tensors.

use super::kernel::{self, Operands};
use crate::differentiable::{self, Differentiable, Operand};
use crate::rope;
use crate::segment_attention::{Segments, segment_attention};
use burn::tensor::{Tensor, TensorData, activation};

/// The attention of step `later.len()`, with gradients where the operands are tracked. The angles of `spec` reach
/// `later.len()` positions beyond its longest segment.
///
/// # Shapes
/// `q [rows, heads · d]`; keys and values of step 0 in `first` and of each later step `[rows, kv_heads · d]`,
/// all before the rotary embedding; result as `q`.
pub fn unrolled_attention(
    spec: &Segments,
    q: Tensor<2>,
    first: (Tensor<2>, Tensor<2>),
    later: &[(Tensor<2>, Tensor<2>)],
) -> Tensor<2> {
    let (k, v) = first;
    if later.is_empty() {
        return segment_attention(spec, q, k, v);
    }
    let (shape, steps) = (q.dims(), later.len());
    let later_k = Tensor::cat(later.iter().map(|(k, _)| k.clone()).collect(), 1);
    let later_v = Tensor::cat(later.iter().map(|(_, v)| v.clone()).collect(), 1);
    let all = [&q, &k, &v, &later_k, &later_v].map(Operand::of);
    match all {
        [Some(a), Some(b), Some(c), Some(d), Some(e)] => {
            differentiable::apply(Fused { spec: spec.clone(), steps }, [a, b, c, d, e], shape)
        }
        _ => composed(spec, q, (k, v), later),
    }
}

#[derive(Clone, Debug)]
struct Fused {
    spec: Segments,
    steps: usize,
}

impl Fused {
    fn operands<'a>(&self, [q, k, v, later_k, later_v]: [&'a [f32]; 5]) -> Operands<'a> {
        Operands { q, k, v, later_k, later_v, steps: self.steps }
    }
}

impl Differentiable<5> for Fused {
    fn forward(&self, inputs: [&[f32]; 5]) -> Vec<f32> {
        kernel::forward(&self.spec, self.operands(inputs))
    }

    fn backward(&self, inputs: [&[f32]; 5], gradient: &[f32]) -> [Vec<f32>; 5] {
        kernel::backward(&self.spec, self.operands(inputs), gradient)
    }
}

/// Composition of burn's operations, for other devices: one masked square over all rows, and a column per later step.
fn composed(
    spec: &Segments,
    q: Tensor<2>,
    first: (Tensor<2>, Tensor<2>),
    later: &[(Tensor<2>, Tensor<2>)],
) -> Tensor<2> {
    let ([n, _], d, device) = (q.dims(), spec.head_dim, q.device());
    let half = d / 2;
    let split = |x: Tensor<2>, heads: usize| x.reshape([1, n, heads, d]).swap_dims(1, 2);
    let rotated = |x: Tensor<2>, heads: usize, by: usize| {
        let positions: Vec<usize> = spec.rows.iter().flat_map(|rows| by..by + rows.len()).collect();
        let table = |from: &[f32]| {
            let values: Vec<f32> = positions.iter().flat_map(|&p| &from[p * half..][..half]).copied().collect();
            Tensor::<2>::from_data(TensorData::new(values, [n, half]), &device)
        };
        rope::rotate(split(x, heads), &table(&spec.angles.0), &table(&spec.angles.1))
    };
    let group = spec.heads / spec.kv_heads;
    let spread = |x: Tensor<4>| {
        let wide = x.unsqueeze_dim::<5>(2).expand([1, spec.kv_heads, group, n, d]);
        wide.reshape([1, spec.heads, n, d])
    };
    let mut mask = vec![f32::NEG_INFINITY; n * n];
    for rows in spec.rows.iter() {
        rows.clone().for_each(|i| mask[i * n + rows.start..=i * n + i].fill(0.0));
    }
    let mask = Tensor::<2>::from_data(TensorData::new(mask, [n, n]), &device).unsqueeze::<4>();
    let q = rotated(q, spec.heads, later.len()) * spec.scale();
    let mut scores = vec![q.clone().matmul(spread(rotated(first.0, spec.kv_heads, 0)).swap_dims(2, 3)) + mask];
    for (j, (k, _)) in later.iter().enumerate() {
        scores.push((q.clone() * spread(rotated(k.clone(), spec.kv_heads, j + 1))).sum_dim(3));
    }
    let p = activation::softmax(Tensor::cat(scores, 3), 3);
    let mut mixed = p.clone().narrow(3, 0, n).matmul(spread(split(first.1, spec.kv_heads)));
    for (j, (_, v)) in later.iter().enumerate() {
        mixed = mixed + p.clone().narrow(3, n + j, 1) * spread(split(v.clone(), spec.kv_heads));
    }
    mixed.swap_dims(1, 2).reshape([n, spec.heads * d])
}

#[cfg(test)]
mod tests;
