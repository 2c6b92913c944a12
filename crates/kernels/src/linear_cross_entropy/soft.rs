//! Cross-entropy against another network's distribution, with its gradient.
//!
//! For rows `h_i`, target rows `t_i` and a common projection `W`: `p_i = softmax(W t_i)`, `q_i = softmax(W h_i)`,
//! `L = Σ_i s · (−Σ_v p_i(v) log q_i(v))` and `∂L/∂h_i = s · (q_i − p_i) W`. Logits exist for one chunk of rows at a time.

use crate::{Isa, host, isa::per_isa, lanes};
use burn::tensor::{Int, Tensor, activation};
use rayon::prelude::*;

/// Losses and the gradient.
#[derive(Debug)]
pub struct SoftCrossEntropy {
    /// Cross-entropy of each row, not scaled, in nats.
    pub losses: Vec<f32>,
    /// How many logits of each row beat that of the target's likeliest token; 0 means that both agree.
    pub ranks: Vec<u32>,
    /// `∂L/∂h [rows, d]` of the scaled sum.
    pub d_hidden: Tensor<2>,
}

/// Soft cross-entropy of `hidden · weightᵀ` against `softmax(target · weightᵀ)`, `chunk` rows of logits at a time; every
/// row counts `scale` in the gradient.
///
/// # Shapes
/// `hidden` and `target` `[rows, d]`, `weight [V, d]`.
///
/// # Panics
/// If the shapes of `hidden` and `target` differ.
pub fn soft_cross_entropy(
    hidden: &Tensor<2>,
    target: &Tensor<2>,
    weight: &Tensor<2>,
    scale: f32,
    chunk: usize,
) -> SoftCrossEntropy {
    let [rows, d] = hidden.dims();
    assert_eq!(hidden.dims(), target.dims(), "one target row per row");
    let (mut losses, mut ranks, mut parts) = (vec![0f32; rows], vec![0u32; rows], vec![]);
    let chunk = chunk.max(1);
    for start in (0..rows).step_by(chunk) {
        let part = start..rows.min(start + chunk);
        let project = |x: &Tensor<2>| x.clone().narrow(0, start, part.len()).matmul(weight.clone().transpose());
        let (logits, targets) = (project(hidden), project(target));
        let gradient = differentiate(logits, targets, scale, &mut losses[part.clone()], &mut ranks[part]);
        parts.push(gradient.matmul(weight.clone()));
    }
    let d_hidden = match parts.len() {
        0 => Tensor::zeros([0, d], &hidden.device()),
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 0),
    };
    SoftCrossEntropy { losses, ranks, d_hidden }
}

/// Logits become the gradient of the scaled loss with respect to them.
fn differentiate(
    logits: Tensor<2>,
    targets: Tensor<2>,
    scale: f32,
    losses: &mut [f32],
    ranks: &mut [u32],
) -> Tensor<2> {
    if !host::is_host(&logits.device()) {
        return differentiate_on_device(logits, targets, scale, losses, ranks);
    }
    let shape = logits.dims();
    // The only owner's buffer is handed over, not copied.
    let own = |x: Tensor<2>| -> Vec<f32> { x.into_data().try_into_vec().expect("CPU logits are f32") };
    let (mut logits, mut targets) = (own(logits), own(targets));
    let vocab = shape[1].max(1);
    let rows = logits.par_chunks_exact_mut(vocab).zip(targets.par_chunks_exact_mut(vocab));
    rows.zip(losses).zip(ranks).for_each(|(((row, target), loss), rank)| {
        (*loss, *rank) = one_row(Isa::detect(), row, target, scale);
    });
    host::tensor(logits, shape)
}

per_isa! {
    /// `row` becomes `scale · (q − p)`, `target` becomes `p`.
    fn one_row(row: &mut [f32], target: &mut [f32], scale: f32) -> (f32, u32) {
        let (mut best, mut most, mut max) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
        for (i, (&t, &x)) in target.iter().zip(row.iter()).enumerate() {
            if t > most {
                (best, most) = (i, t);
            }
            max = max.max(x);
        }
        let own = row[best];
        let mut above = 0u32;
        for (i, &x) in row.iter().enumerate() {
            above += u32::from(x > own || (x == own && i < best));
        }
        for t in target.iter_mut() {
            *t = lanes::exp(*t - most);
        }
        let share = 1.0 / lanes::sum(target);
        for t in target.iter_mut() {
            *t *= share;
        }
        // `Σ p = 1`, so that the cross-entropy is `log Σ exp x − Σ p x`.
        let expected = lanes::dot(target, row);
        for x in row.iter_mut() {
            *x = lanes::exp(*x - max);
        }
        let sum = lanes::sum(row);
        for (x, &t) in row.iter_mut().zip(target.iter()) {
            *x = scale * (*x / sum - t);
        }
        (sum.ln() + max - expected, above)
    }
}

fn differentiate_on_device(
    logits: Tensor<2>,
    targets: Tensor<2>,
    scale: f32,
    losses: &mut [f32],
    ranks: &mut [u32],
) -> Tensor<2> {
    let device = logits.device();
    let [rows, vocab] = logits.dims();
    let best = targets.clone().argmax(1);
    let columns = Tensor::<1, Int>::arange(0..vocab as i64, &device).unsqueeze::<2>().expand([rows, vocab]);
    let own = logits.clone().gather(1, best.clone()).expand([rows, vocab]);
    let tied_below = logits.clone().equal(own.clone()).float() * columns.lower(best.expand([rows, vocab])).float();
    let above = (logits.clone().greater(own).float() + tied_below).sum_dim(1);
    let (log_q, p) = (activation::log_softmax(logits, 1), activation::softmax(targets, 1));
    let loss = (log_q.clone() * p.clone()).sum_dim(1).neg();
    // One read for both.
    let read: Vec<f32> = Tensor::cat(vec![loss, above], 1).into_data().convert::<f32>().try_into_vec().expect("f32");
    for (i, pair) in read.chunks_exact(2).enumerate() {
        (losses[i], ranks[i]) = (pair[0], pair[1] as u32);
    }
    (log_q.exp() - p) * scale
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use burn::tensor::{Device, TensorData};

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 1.5).collect()
    }

    fn tensor(values: &[f32], shape: [usize; 2]) -> Tensor<2> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
    }

    #[test]
    fn equals_the_reference_whatever_the_chunk() {
        let (rows, d, vocab) = (11, 24, 70);
        let (h, t, w) = (values(rows * d, 1), values(rows * d, 5), values(vocab * d, 2));
        let (losses, d_hidden) = reference::soft_cross_entropy(&h, &t, &w, d, 0.3);
        let close = |got: &[f32], want: &[f64]| {
            assert_eq!(got.len(), want.len());
            got.iter().zip(want).for_each(|(a, b)| assert!((f64::from(*a) - b).abs() < 2e-5, "{a} {b}"));
        };
        for chunk in [1, 4, 11, 100] {
            let (h, t, w) = (tensor(&h, [rows, d]), tensor(&t, [rows, d]), tensor(&w, [vocab, d]));
            let got = soft_cross_entropy(&h, &t, &w, 0.3, chunk);
            close(&got.losses, &losses);
            close(&got.d_hidden.into_data().try_into_vec::<f32>().unwrap(), &d_hidden);
        }
    }

    #[test]
    fn the_device_path_says_the_same() {
        let (rows, vocab) = (9, 33);
        let (mut logits, targets) = (values(rows * vocab, 3), values(rows * vocab, 8));
        logits[5] = logits[7];
        let pair = || (tensor(&logits, [rows, vocab]), tensor(&targets, [rows, vocab]));
        let (mut a, mut b) = ((vec![0f32; rows], vec![0u32; rows]), (vec![0f32; rows], vec![0u32; rows]));
        let (x, t) = pair();
        let on_host = differentiate(x, t, 0.5, &mut a.0, &mut a.1);
        let (x, t) = pair();
        let on_device = differentiate_on_device(x, t, 0.5, &mut b.0, &mut b.1);
        assert_eq!(a.1, b.1);
        a.0.iter().zip(&b.0).for_each(|(x, y)| assert!((x - y).abs() < 1e-5));
        assert!((on_host - on_device).abs().max().into_scalar::<f32>() < 1e-6);
    }

    /// Against itself, a distribution has no gradient, its entropy as loss, and the same likeliest token.
    #[test]
    fn against_itself_nothing_is_left_to_learn() {
        let (rows, d, vocab) = (5, 8, 40);
        let (h, w) = (tensor(&values(rows * d, 4), [rows, d]), tensor(&values(vocab * d, 6), [vocab, d]));
        let got = soft_cross_entropy(&h, &h, &w, 1.0, 3);
        assert_eq!(got.ranks, [0; 5]);
        assert!(got.d_hidden.abs().max().into_scalar::<f32>() < 1e-6);
        assert!(got.losses.iter().all(|&l| l > 0.0 && l <= (vocab as f32).ln()));
    }
}
