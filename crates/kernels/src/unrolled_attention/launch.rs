//! Unrolled attention of burn tensors.

use super::kernel::{self, Operands};
use crate::differentiable::{self, Differentiable, Operand};
use crate::rope;
use crate::segment_attention::{Segments, segment_attention};
use burn::tensor::{Tensor, TensorData, activation};

/// The attention of step `later.len()`, with gradients where the operands are tracked. The angles of `spec` reach
/// `later.len()` positions beyond its longest segment.
///
/// # Shapes `q [rows, heads · d]`; keys and values of step 0 in `first` and of each later step `[rows, kv_heads · d]`,
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

/// The same from burn's operations, for other devices: one masked square over all rows, and a column per later step.
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
mod tests {
    use super::super::reference;
    use super::*;
    use burn::tensor::Device;

    const N: usize = 17;

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    fn spec(steps: usize) -> Segments {
        let rows: Vec<std::ops::Range<usize>> = vec![0..5, 5..6, 6..17];
        let angles = Segments::angles(11 + steps, 8, 100.0);
        Segments { heads: 4, kv_heads: 2, head_dim: 8, angles, rows: rows.into() }
    }

    fn read(x: Tensor<2>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    /// Query, then key and value of every step.
    fn inputs(steps: usize) -> Vec<Vec<f32>> {
        (0..3 + 2 * steps).map(|i| values(N * if i == 0 { 32 } else { 16 }, i + 1)).collect()
    }

    fn run(spec: &Segments, inputs: &[Tensor<2>], fused: bool) -> Tensor<2> {
        let pair = |at: usize| (inputs[at].clone(), inputs[at + 1].clone());
        let later: Vec<_> = (3..inputs.len()).step_by(2).map(pair).collect();
        match fused {
            true => unrolled_attention(spec, inputs[0].clone(), pair(1), &later),
            false => composed(spec, inputs[0].clone(), pair(1), &later),
        }
    }

    #[test]
    fn fused_and_composed_equal_the_reference_and_each_others_gradients() {
        for steps in 0..4 {
            let (spec, inputs) = (spec(steps), inputs(steps));
            let doubles: Vec<Vec<f64>> = inputs.iter().map(|x| x.iter().map(|&x| f64::from(x)).collect()).collect();
            let later: Vec<_> = doubles[3..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            let want = reference::unrolled_attention(&spec, &doubles[0], (&doubles[1], &doubles[2]), &later);
            let tensor = |x: &Vec<f32>| {
                Tensor::<2>::from_data(TensorData::new(x.clone(), [N, x.len() / N]), &Device::flex()).autodiff()
            };
            let mut gradients: Vec<Vec<f32>> = vec![];
            for fused in [true, false] {
                let leaves: Vec<Tensor<2>> = inputs.iter().map(|x| tensor(x).require_grad()).collect();
                let out = run(&spec, &leaves, fused);
                for (a, b) in read(out.clone().inner()).iter().zip(&want) {
                    assert!((f64::from(*a) - b).abs() < 1e-5, "step {steps}: {a} {b}");
                }
                let mut grads = (out * tensor(&values(N * 32, 40))).sum().backward();
                gradients.push(leaves.iter().flat_map(|leaf| read(leaf.grad_remove(&mut grads).unwrap())).collect());
            }
            let worst = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "step {steps}: {worst}");
        }
    }

    /// Of later steps a row sees itself alone, of step 0 only what came before it in its own segment.
    #[test]
    fn rows_see_what_they_should() {
        let (spec, inputs) = (spec(2), inputs(2));
        let forward = |inputs: &[Vec<f32>]| {
            let tensor = |x: &Vec<f32>| {
                Tensor::<2>::from_data(TensorData::new(x.clone(), [N, x.len() / N]), &Device::flex()).autodiff()
            };
            let out = run(&spec, &inputs.iter().map(tensor).collect::<Vec<_>>(), true);
            read(out.inner()).chunks(32).map(<[f32]>::to_vec).collect::<Vec<_>>()
        };
        let before = forward(&inputs);
        for (input, row, felt) in [(1, 8, 8..17), (3, 8, 8..9), (4, 2, 2..3), (6, 16, 16..17), (2, 5, 5..6)] {
            let mut changed = inputs.clone();
            changed[input][row * 16..(row + 1) * 16].iter_mut().for_each(|x| *x += 2.0);
            let after = forward(&changed);
            let differ: Vec<usize> = (0..N).filter(|&row| before[row] != after[row]).collect();
            assert_eq!(differ, felt.collect::<Vec<_>>(), "input {input}, row {row}");
        }
    }
}
