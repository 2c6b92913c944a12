//! One row on the CPU.

use super::Divergence;
use crate::{isa::per_isa, lanes};

/// Result of one row beside the gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RowOutput {
    pub loss: f32,
    pub overlap: f32,
    pub agrees: bool,
}

/// The place of the greatest value, the first of equals.
#[inline(always)]
fn greatest(row: &[f32]) -> (usize, f32) {
    let better = |best: (usize, f32), (i, &x): (usize, &f32)| if x > best.1 { (i, x) } else { best };
    row.iter().enumerate().fold((0, f32::NEG_INFINITY), better)
}

/// Logits become log-probabilities.
#[inline(always)]
fn normalise(row: &mut [f32], most: f32) {
    let sum: f64 = row.iter().map(|&x| f64::from(lanes::exp(x - most))).sum();
    let log_sum = most + sum.ln() as f32;
    row.iter_mut().for_each(|x| *x -= log_sum);
}

per_isa! {
    /// `row`, the draft model's logits, becomes the gradient times `scale`; `target`, the target's logits, is used up.
    pub(super) fn one_row(row: &mut [f32], target: &mut [f32], divergence: Divergence, scale: f32) -> RowOutput {
        let ((guess, z_most), (best, t_most)) = (greatest(row), greatest(target));
        normalise(row, z_most);
        normalise(target, t_most);
        let (mut loss, mut overlap, mut mean) = (0f64, 0f64, 0f64);
        for (x, t) in row.iter_mut().zip(target.iter_mut()) {
            let (log_q, log_p) = (*x, *t);
            let (q, p) = (lanes::exp(log_q), lanes::exp(log_p));
            overlap += f64::from(q.min(p));
            let (part, slope) = match divergence {
                Divergence::ForwardKl => (p * (log_p - log_q), 0.0),
                Divergence::ReverseKl => (q * (log_q - log_p), log_q - log_p),
                Divergence::JensenShannon(beta) => {
                    // Where neither has any mass left, neither counts.
                    let log_m = (beta * p + (1.0 - beta) * q).max(f32::MIN_POSITIVE).ln();
                    let (of_p, of_q) = (beta * p * (log_p - log_m), (1.0 - beta) * (log_q - log_m));
                    (of_p + q * of_q, of_q)
                }
                Divergence::TotalVariation => {
                    let sign = f32::from(u8::from(q > p)) - f32::from(u8::from(q < p));
                    (0.5 * (p - q).abs(), 0.5 * sign)
                }
            };
            loss += f64::from(part);
            mean += f64::from(q) * f64::from(slope);
            (*x, *t) = match divergence {
                // `−p/q` would overflow where q vanishes; `q − p` is what it comes to.
                Divergence::ForwardKl => (1.0, q - p),
                _ => (q, slope),
            };
        }
        for (x, &slope) in row.iter_mut().zip(target.iter()) {
            *x *= scale * (slope - mean as f32);
        }
        RowOutput { loss: loss as f32, overlap: overlap as f32, agrees: guess == best }
    }
}
