//! Cross-entropy against another network's distribution, with its gradient.
//!
//! For rows `h_i` under a projection `W` and target rows `t_i` under `U`, which may be `W`: `p_i = softmax(U t_i)`,
//! `q_i = softmax(W h_i)`, `L = Σ_i s · (−Σ_v p_i(v) log q_i(v))`, `∂L/∂h_i = s · (q_i − p_i) W` and
//! `∂L/∂W = Σ_i s · (q_i − p_i) h_iᵀ`. Logits exist for one chunk of rows at a time.

#[cfg(feature = "gpu")]
use crate::linear_divergence::{Compared, Measure};
use crate::projected::{Projected, Wanted, in_chunks};
use crate::{Isa, Table, host, isa::per_isa, lanes};
use burn::tensor::{Device, Tensor};
use rayon::prelude::*;
use std::ops::Range;

/// Losses and the gradient.
#[derive(Debug)]
pub struct SoftCrossEntropy {
    /// Cross-entropy of each row, not scaled, in nats.
    pub losses: Vec<f32>,
    /// How many logits of each row beat that of the target's likeliest token; 0 means that both agree.
    pub ranks: Vec<u32>,
    /// `∂L/∂h [rows, d]` of the scaled sum.
    pub d_hidden: Tensor<2>,
    /// `∂L/∂W [V, d]` of the scaled sum, where it was asked for.
    pub d_weight: Option<Tensor<2>>,
}

/// Soft cross-entropy of `hidden · weightᵀ` against `softmax(target · weightᵀ)`, `chunk` rows of logits at a time;
/// every row counts `scale` in the gradient.
///
/// # Shapes
/// `hidden` and `target` `[rows, d]`, `weight [V, d]`.
///
/// # Panics
/// If the shapes of `hidden` and `target` differ.
pub fn soft_cross_entropy(
    hidden: &Tensor<2>,
    target: &Tensor<2>,
    weight: &Table,
    scale: f32,
    chunk: usize,
) -> SoftCrossEntropy {
    let of = |hidden| Projected::new(hidden, weight);
    soft_cross_entropy_between(of(hidden), of(target), scale, chunk, false)
}

/// The same for two projections onto one vocabulary, with the gradient of the first of them if asked for. On a GPU
/// losses and ranks are read once, after all chunks.
///
/// # Shapes
/// `guessed` of width `d`, `target` of any, both of the same rows and vocabulary.
///
/// # Panics
/// If rows or vocabularies differ, or the first has a soft cap.
pub fn soft_cross_entropy_between(
    guessed: Projected<'_>,
    target: Projected<'_>,
    scale: f32,
    chunk: usize,
    with_weight_gradient: bool,
) -> SoftCrossEntropy {
    let [rows, d] = guessed.hidden.dims();
    let mut found = Found::new(rows, &guessed.weight.device());
    let wanted = Wanted { hidden: true, weight: with_weight_gradient };
    let (d_hidden, d_weight) = in_chunks(guessed, target, chunk, wanted, |part, logits, targets| {
        found.differentiate(logits, targets, part, scale)
    });
    let d_hidden = d_hidden.unwrap_or_else(|| Tensor::zeros([0, d], &guessed.weight.device()));
    let (losses, ranks) = found.read();
    SoftCrossEntropy { losses, ranks, d_hidden, d_weight }
}

/// Losses and ranks, where the logits are.
enum Found {
    Host {
        losses: Vec<f32>,
        ranks: Vec<u32>,
    },
    #[cfg(feature = "gpu")]
    Device(Compared),
}

impl Found {
    fn new(rows: usize, device: &Device) -> Self {
        #[cfg(feature = "gpu")]
        if rows > 0 && !host::is_host(device) {
            return Self::Device(Compared::new(rows, device));
        }
        let _ = device;
        Self::Host { losses: vec![0f32; rows], ranks: vec![0u32; rows] }
    }

    /// The logits of some rows become the gradient of the scaled loss with respect to them.
    fn differentiate(&mut self, logits: Tensor<2>, targets: Tensor<2>, part: Range<usize>, scale: f32) -> Tensor<2> {
        match self {
            Self::Host { losses, ranks } => {
                on_host(logits, targets, scale, &mut losses[part.clone()], &mut ranks[part])
            }
            #[cfg(feature = "gpu")]
            Self::Device(rows) => {
                rows.differentiate([logits, targets], part.start, (Measure::CrossEntropy, 0.0), scale)
            }
        }
    }

    fn read(self) -> (Vec<f32>, Vec<u32>) {
        match self {
            Self::Host { losses, ranks } => (losses, ranks),
            #[cfg(feature = "gpu")]
            Self::Device(rows) => {
                let [losses, _, ranks] = rows.read();
                (losses, ranks.into_iter().map(|rank| rank as u32).collect())
            }
        }
    }
}

fn on_host(logits: Tensor<2>, targets: Tensor<2>, scale: f32, losses: &mut [f32], ranks: &mut [u32]) -> Tensor<2> {
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

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::Frozen;
    use burn::tensor::{TensorData, activation};

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
        let kinds =
            [Table::from(tensor(&w, [vocab, d])), Table::frozen(tensor(&w, [vocab, d]), Frozen::default()).unwrap()];
        for (weight, chunk) in kinds.iter().flat_map(|kind| [1, 4, 11, 100].map(|chunk| (kind, chunk))) {
            let (h, t) = (tensor(&h, [rows, d]), tensor(&t, [rows, d]));
            let got = soft_cross_entropy(&h, &t, weight, 0.3, chunk);
            close(&got.losses, &losses);
            close(&got.d_hidden.into_data().try_into_vec::<f32>().unwrap(), &d_hidden);
        }
    }

    /// With a projection of its own: as the cross-entropy of rows that were projected before.
    #[test]
    fn two_projections_and_the_gradient_of_the_first() {
        let (rows, d, wide, vocab) = (7, 8, 12, 30);
        let (h, w) = (tensor(&values(rows * d, 4), [rows, d]), tensor(&values(vocab * d, 6), [vocab, d]));
        let (t, u) = (tensor(&values(rows * wide, 5), [rows, wide]), tensor(&values(vocab * wide, 7), [vocab, wide]));
        let table = Table::frozen(u.clone(), Frozen::default()).unwrap();
        let run = |w: &Tensor<2>, chunk| {
            let own = Table::from(w.clone());
            let (guessed, target) = (Projected::new(&h, &own), Projected::new(&t, &table));
            soft_cross_entropy_between(guessed, target, 0.5, chunk, true)
        };
        let read = |x: Tensor<2>| x.into_data().try_into_vec::<f32>().unwrap();
        let (p, log_q) = (
            activation::softmax(t.clone().matmul(u.clone().transpose()), 1),
            activation::log_softmax(h.clone().matmul(w.clone().transpose()), 1),
        );
        let want = read((p * log_q).sum_dim(1).neg());
        let found = run(&w, 3);
        found.losses.iter().zip(&want).for_each(|(a, b)| assert!((a - b).abs() < 1e-4, "{a} {b}"));
        let slopes = read(found.d_weight.unwrap());
        for i in [0, 17, 100, vocab * d - 1] {
            let nudged = |by: f32| {
                let mut moved = values(vocab * d, 6);
                moved[i] += by;
                run(&tensor(&moved, [vocab, d]), 100).losses.iter().map(|&l| 0.5 * f64::from(l)).sum::<f64>()
            };
            let slope = (nudged(1e-2) - nudged(-1e-2)) / 2e-2;
            assert!((slope - f64::from(slopes[i])).abs() < 2e-3, "{i}: {} {slope}", slopes[i]);
        }
    }

    /// Against itself, a distribution has no gradient, its entropy as loss, and the same likeliest token.
    #[test]
    fn against_itself_nothing_is_left_to_learn() {
        let (rows, d, vocab) = (5, 8, 40);
        let (h, w) = (tensor(&values(rows * d, 4), [rows, d]), tensor(&values(vocab * d, 6), [vocab, d]));
        let got = soft_cross_entropy(&h, &h, &w.into(), 1.0, 3);
        assert_eq!(got.ranks, [0; 5]);
        assert!(got.d_hidden.abs().max().into_scalar::<f32>() < 1e-6);
        assert!(got.losses.iter().all(|&l| l > 0.0 && l <= (vocab as f32).ln()));
    }
}
