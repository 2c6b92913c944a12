//! Linear cross-entropy of burn tensors.

#[cfg(feature = "gpu")]
use super::cube;
use super::{Labels, cross_entropy_rows};
use crate::{Isa, Table, host, tall_matmul};
use burn::tensor::{Device, Tensor};
use std::ops::Range;

/// Losses and gradients.
#[derive(Debug)]
pub struct LinearCrossEntropy {
    /// Cross-entropy of each row, not scaled, in nats.
    pub losses: Vec<f32>,
    /// How many logits beat each row's label; 0 means that it was the argmax.
    pub ranks: Vec<u32>,
    /// `∂L/∂h [rows, d]` of the scaled sum.
    pub d_hidden: Tensor<2>,
    /// `∂L/∂W [V, d]` of the scaled sum, where it was asked for.
    pub d_weight: Option<Tensor<2>>,
}

/// Cross-entropy of `hidden · weightᵀ` against labels with its gradients, `chunk` rows of logits at a time. On a GPU
/// losses and ranks are read once, after all chunks.
///
/// # Shapes
/// `hidden [rows, d]`, `weight [V, d]`, one label and one scale per row.
///
/// # Panics
/// If the numbers of rows, labels and scales differ, or a label is outside the table.
pub fn linear_cross_entropy(
    hidden: &Tensor<2>,
    weight: &Table,
    labels: Labels<'_>,
    chunk: usize,
    with_weight_gradient: bool,
) -> LinearCrossEntropy {
    let [rows, d] = hidden.dims();
    assert!(rows == labels.tokens.len() && rows == labels.scales.len(), "one label and one scale per row");
    let vocab = weight.dims()[0];
    assert!(labels.tokens.iter().all(|&token| (token as usize) < vocab), "a label outside the {vocab} of the table");
    let mut found = Found::new(labels, &weight.device());
    let (mut d_hidden, mut d_weight) = (vec![], None::<Tensor<2>>);
    let chunk = weight.rows_at_once(chunk);
    for start in (0..rows).step_by(chunk) {
        let part = start..rows.min(start + chunk);
        let h = hidden.clone().narrow(0, start, part.len());
        let gradient = found.differentiate(weight.scores(h.clone()), part);
        if with_weight_gradient {
            let here = tall_matmul::matmul(gradient.clone().cast(h.dtype()).transpose(), h);
            d_weight = Some(match d_weight {
                Some(sum) => sum + here,
                None => here,
            });
        }
        d_hidden.push(weight.back(gradient));
    }
    let d_hidden = match d_hidden.len() {
        0 => Tensor::zeros([0, d], &hidden.device()),
        1 => d_hidden.remove(0),
        _ => Tensor::cat(d_hidden, 0),
    };
    let (losses, ranks) = found.read();
    LinearCrossEntropy { losses, ranks, d_hidden, d_weight }
}

/// Losses and ranks, where the logits are.
enum Found<'a> {
    Host {
        labels: Labels<'a>,
        losses: Vec<f32>,
        ranks: Vec<u32>,
    },
    #[cfg(feature = "gpu")]
    Device(cube::Rows),
}

impl<'a> Found<'a> {
    fn new(labels: Labels<'a>, device: &Device) -> Self {
        let rows = labels.tokens.len();
        // What is on a GPU has rows: there is nothing to be had of none.
        #[cfg(feature = "gpu")]
        if rows > 0 && !host::is_host(device) {
            return Self::Device(cube::Rows::new(labels, device));
        }
        let _ = device;
        Self::Host { labels, losses: vec![0f32; rows], ranks: vec![0u32; rows] }
    }

    /// The logits of some rows become the gradient of the scaled loss with respect to them.
    fn differentiate(&mut self, logits: Tensor<2>, part: Range<usize>) -> Tensor<2> {
        match self {
            Self::Host { labels, losses, ranks } => {
                let shape = logits.dims();
                // The only owner's buffer is handed over, not copied.
                let mut values: Vec<f32> = logits.into_data().try_into_vec().expect("CPU logits are f32");
                let (tokens, scales) = (&labels.tokens[part.clone()], &labels.scales[part.clone()]);
                let (losses, ranks) = (&mut losses[part.clone()], &mut ranks[part]);
                cross_entropy_rows(Isa::detect(), &mut values, tokens, scales, losses, ranks);
                host::tensor(values, shape)
            }
            #[cfg(feature = "gpu")]
            Self::Device(rows) => rows.differentiate(logits, part.start),
        }
    }

    fn read(self) -> (Vec<f32>, Vec<u32>) {
        match self {
            Self::Host { losses, ranks, .. } => (losses, ranks),
            #[cfg(feature = "gpu")]
            Self::Device(rows) => rows.read(),
        }
    }
}

#[cfg(test)]
mod tests;
