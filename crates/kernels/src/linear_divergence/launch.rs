//! Linear divergence of burn tensors.

use super::Divergence;
#[cfg(feature = "gpu")]
use super::cube::{Compared, Measure};
use super::row::one_row;
use crate::projected::{Projected, Wanted, in_chunks};
use crate::{Isa, host};
use burn::tensor::{Device, Tensor};
use rayon::prelude::*;
use std::ops::Range;

/// Divergences and gradients.
#[derive(Debug)]
pub struct LinearDivergence {
    /// `D(p, q)` of each row, not scaled.
    pub losses: Vec<f32>,
    /// `Σ min(p, q)` of each row: how probable it is that speculative sampling accepts a draft.
    pub overlaps: Vec<f32>,
    /// Whether both have the same argmax.
    pub agrees: Vec<bool>,
    /// `∂L/∂h [rows, d]` of the scaled sum, and `∂L/∂W [V, d]`, where they were asked for.
    pub gradients: Option<(Tensor<2>, Tensor<2>)>,
}

/// Divergence of the draft model's distributions from the target's, `chunk` rows of logits at a time. With a `scale`,
/// which every row's loss counts, also the gradients of the draft model's states and LM head. On a GPU what is found
/// about rows is read once, after all chunks.
///
/// # Shapes
/// As many rows and the same V in both; widths may differ.
///
/// # Panics
/// If rows or vocabularies differ, or the draft model has a soft cap, which has no gradient here.
pub fn linear_divergence(
    draft: Projected<'_>,
    target: Projected<'_>,
    divergence: Divergence,
    scale: Option<f32>,
    chunk: usize,
) -> LinearDivergence {
    let mut found = Found::new(draft.hidden.dims()[0], &draft.weight.device());
    let wanted = Wanted { hidden: scale.is_some(), weight: scale.is_some() };
    let gradients = in_chunks(draft, target, chunk, wanted, |part, logits, targets| {
        found.differentiate(logits, targets, part, divergence, scale.unwrap_or(0.0))
    });
    let (losses, overlaps, agrees) = found.read();
    LinearDivergence { losses, overlaps, agrees, gradients: gradients.0.zip(gradients.1) }
}

/// Losses, overlaps and agreements, where the logits are.
enum Found {
    Host(Vec<(f32, f32, bool)>),
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
        Self::Host(Vec::with_capacity(rows))
    }

    /// The gradient of the scaled loss with respect to the draft model's logits; rows come in their order.
    fn differentiate(
        &mut self,
        logits: Tensor<2>,
        targets: Tensor<2>,
        part: Range<usize>,
        divergence: Divergence,
        scale: f32,
    ) -> Tensor<2> {
        match self {
            Self::Host(found) => {
                let (more, gradient) = on_host(logits, targets, divergence, scale);
                found.extend(more);
                let _ = part;
                gradient
            }
            #[cfg(feature = "gpu")]
            Self::Device(rows) => rows.differentiate([logits, targets], part.start, measure(divergence), scale),
        }
    }

    fn read(self) -> (Vec<f32>, Vec<f32>, Vec<bool>) {
        match self {
            Self::Host(found) => {
                let agrees = found.iter().map(|row| row.2).collect();
                let (losses, overlaps) = found.into_iter().map(|row| (row.0, row.1)).unzip();
                (losses, overlaps, agrees)
            }
            #[cfg(feature = "gpu")]
            Self::Device(rows) => {
                // Both agree where nothing beats the target's argmax.
                let [losses, overlaps, ranks] = rows.read();
                (losses, overlaps, ranks.into_iter().map(|rank| rank == 0.0).collect())
            }
        }
    }
}

#[cfg(feature = "gpu")]
fn measure(divergence: Divergence) -> (Measure, f32) {
    match divergence {
        Divergence::ForwardKl => (Measure::ForwardKl, 0.0),
        Divergence::ReverseKl => (Measure::ReverseKl, 0.0),
        Divergence::JensenShannon(beta) => (Measure::JensenShannon, beta),
        Divergence::TotalVariation => (Measure::TotalVariation, 0.0),
    }
}

fn on_host(
    logits: Tensor<2>,
    targets: Tensor<2>,
    divergence: Divergence,
    scale: f32,
) -> (Vec<(f32, f32, bool)>, Tensor<2>) {
    let shape = logits.dims();
    // The only owner's buffer is handed over, not copied.
    let own = |x: Tensor<2>| -> Vec<f32> { x.into_data().try_into_vec().expect("CPU logits are f32") };
    let (mut logits, mut targets) = (own(logits), own(targets));
    let vocab = shape[1].max(1);
    let rows = logits.par_chunks_exact_mut(vocab).zip(targets.par_chunks_exact_mut(vocab));
    let one = |(row, target): (&mut [f32], &mut [f32])| {
        let found = one_row(Isa::detect(), row, target, divergence, scale);
        (found.loss, found.overlap, found.agrees)
    };
    let found = rows.map(one).collect();
    (found, host::tensor(logits, shape))
}

#[cfg(test)]
mod tests;
