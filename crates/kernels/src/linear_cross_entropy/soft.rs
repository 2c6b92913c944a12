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
    /// How many logits of each row beat that of the target's argmax; 0 means that both agree.
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

/// Soft cross-entropy between two projections onto one vocabulary, with the gradient of the first of them if requested.
/// On a GPU losses and ranks are read once, after all chunks.
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
mod tests;
