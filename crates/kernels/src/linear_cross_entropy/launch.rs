//! Linear cross-entropy of burn tensors.

use super::cross_entropy_rows;
#[cfg(feature = "gpu")]
use super::cube;
use crate::{Isa, Table, host};
use burn::tensor::{Device, Tensor};
use std::ops::Range;

/// What the rows should have said.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The label of each row, below `V`.
    pub tokens: &'a [u32],
    /// What each row's loss counts in the gradients.
    pub scales: &'a [f32],
}

/// Losses and gradients.
#[derive(Debug)]
pub struct LinearCrossEntropy {
    /// Cross-entropy of each row, not scaled, in nats.
    pub losses: Vec<f32>,
    /// How many logits beat each row's label; 0 means that it was the likeliest.
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
            let here = gradient.clone().cast(h.dtype()).transpose().matmul(h);
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
mod tests {
    use super::super::reference;
    use super::*;
    use crate::Frozen;
    use burn::tensor::TensorData;

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 1.5).collect()
    }

    #[test]
    fn equals_the_reference_whatever_the_chunk() {
        let (rows, d, vocab) = (11, 24, 70);
        let (h, w) = (values(rows * d, 1), values(vocab * d, 2));
        let tokens: Vec<u32> = (0..rows as u32).map(|i| i * 13 % 70).collect();
        let scales: Vec<f32> = (0..rows).map(|i| 0.1 * i as f32).collect();
        let (losses, d_hidden, d_weight) = reference::linear_cross_entropy(&h, &w, d, &tokens, &scales);
        let device = Device::flex();
        let hidden = Tensor::<2>::from_data(TensorData::new(h, [rows, d]), &device);
        let weight = Tensor::<2>::from_data(TensorData::new(w, [vocab, d]), &device);
        let close = |got: &[f32], want: &[f64]| {
            assert_eq!(got.len(), want.len());
            got.iter().zip(want).for_each(|(a, b)| assert!((f64::from(*a) - b).abs() < 2e-5, "{a} {b}"));
        };
        let kinds = [Table::from(weight.clone()), Table::frozen(weight, Frozen::default()).unwrap()];
        for (weight, chunk) in kinds.iter().flat_map(|kind| [1, 4, 11, 100].map(|chunk| (kind, chunk))) {
            let labels = Labels { tokens: &tokens, scales: &scales };
            let got = linear_cross_entropy(&hidden, weight, labels, chunk, true);
            close(&got.losses, &losses);
            close(&got.d_hidden.into_data().try_into_vec::<f32>().unwrap(), &d_hidden);
            close(&got.d_weight.unwrap().into_data().try_into_vec::<f32>().unwrap(), &d_weight);
        }
    }

    #[test]
    fn a_row_that_is_not_a_number_is_told() {
        let mut logits = vec![0f32; 8];
        logits[3] = f32::NAN;
        let tensor = Tensor::<2>::from_data(TensorData::new(logits, [1, 8]), &Device::flex());
        let mut found = Found::new(Labels { tokens: &[1], scales: &[1.0] }, &Device::flex());
        found.differentiate(tensor, 0..1);
        assert!(found.read().0[0].is_nan());
    }
}
