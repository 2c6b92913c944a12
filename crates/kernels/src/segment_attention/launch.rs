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

/// The same from burn's operations, for other devices: one masked square over all rows.
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
mod tests {
    use super::super::reference;
    use super::*;
    use burn::tensor::Device;

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    fn spec() -> Segments {
        let rows: Vec<std::ops::Range<usize>> = vec![0..5, 5..6, 6..17];
        let angles = Segments::angles(11, 8, 100.0);
        Segments { heads: 4, kv_heads: 2, head_dim: 8, angles, rows: rows.into() }
    }

    fn read(x: Tensor<2>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn fused_and_composed_equal_the_reference_and_each_others_gradients() {
        let (spec, n) = (spec(), 17);
        let [q, k, v, g] = [(32, 1), (16, 2), (16, 3), (32, 4)].map(|(width, seed)| values(n * width, seed));
        let doubles = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let want = reference::segment_attention(&spec, &doubles(&q), &doubles(&k), &doubles(&v));
        let device = Device::flex();
        let tensor = |x: &[f32], width: usize| Tensor::<2>::from_data(TensorData::new(x.to_vec(), [n, width]), &device);
        let mut gradients: Vec<Vec<f32>> = vec![];
        for fused in [true, false] {
            let leaves = [(&q, 32), (&k, 16), (&v, 16)].map(|(x, width)| tensor(x, width).autodiff().require_grad());
            let [q, k, v] = leaves.clone();
            let out = if fused { segment_attention(&spec, q, k, v) } else { composed(&spec, q, k, v) };
            for (a, b) in read(out.clone().inner()).iter().zip(&want) {
                assert!((f64::from(*a) - b).abs() < 1e-5, "{a} {b}");
            }
            let mut grads = (out * tensor(&g, 32).autodiff()).sum().backward();
            gradients.push(leaves.iter().flat_map(|leaf| read(leaf.grad_remove(&mut grads).unwrap())).collect());
        }
        let worst = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "{worst}");
    }

    #[test]
    fn one_segment_does_not_feel_another() {
        let (spec, n) = (spec(), 17);
        let [q, mut k, v] = [(32, 1), (16, 2), (16, 3)].map(|(width, seed)| values(n * width, seed));
        let before = kernel::forward(&spec, Operands { q: &q, k: &k, v: &v });
        k[5 * 16..6 * 16].fill(9.0);
        let after = kernel::forward(&spec, Operands { q: &q, k: &k, v: &v });
        assert_eq!(before[..5 * 32], after[..5 * 32]);
        assert_eq!(before[6 * 32..], after[6 * 32..]);
    }
}
