//! Linear cross-entropy of burn tensors.

use super::cross_entropy_rows;
use crate::{Isa, Table, host};
use burn::tensor::{Int, Tensor, TensorData, activation};

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

/// Cross-entropy of `hidden · weightᵀ` against labels with its gradients, `chunk` rows of logits at a time.
///
/// # Shapes
/// `hidden [rows, d]`, `weight [V, d]`, one label and one scale per row.
///
/// # Panics
/// If the numbers of rows, labels and scales differ.
pub fn linear_cross_entropy(
    hidden: &Tensor<2>,
    weight: &Table,
    labels: Labels<'_>,
    chunk: usize,
    with_weight_gradient: bool,
) -> LinearCrossEntropy {
    let [rows, d] = hidden.dims();
    assert!(rows == labels.tokens.len() && rows == labels.scales.len(), "one label and one scale per row");
    let (mut losses, mut ranks) = (vec![0f32; rows], vec![0u32; rows]);
    let (mut d_hidden, mut d_weight) = (vec![], None::<Tensor<2>>);
    let chunk = weight.rows_at_once(chunk);
    for start in (0..rows).step_by(chunk) {
        let part = start..rows.min(start + chunk);
        let h = hidden.clone().narrow(0, start, part.len());
        let logits = weight.logits(h.clone());
        let labels = Labels { tokens: &labels.tokens[part.clone()], scales: &labels.scales[part.clone()] };
        let gradient = differentiate(logits, labels, &mut losses[part.clone()], &mut ranks[part]);
        if with_weight_gradient {
            let here = gradient.clone().transpose().matmul(h);
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
    LinearCrossEntropy { losses, ranks, d_hidden, d_weight }
}

/// Logits become the gradient of the scaled loss with respect to them.
fn differentiate(logits: Tensor<2>, labels: Labels<'_>, losses: &mut [f32], ranks: &mut [u32]) -> Tensor<2> {
    let device = logits.device();
    if !host::is_host(&device) {
        return differentiate_on_device(logits, labels, losses, ranks);
    }
    let shape = logits.dims();
    // The only owner's buffer is handed over, not copied.
    let mut values: Vec<f32> = logits.into_data().try_into_vec().expect("CPU logits are f32");
    cross_entropy_rows(Isa::detect(), &mut values, labels.tokens, labels.scales, losses, ranks);
    host::tensor(values, shape)
}

fn differentiate_on_device(logits: Tensor<2>, labels: Labels<'_>, losses: &mut [f32], ranks: &mut [u32]) -> Tensor<2> {
    let device = logits.device();
    let [rows, vocab] = logits.dims();
    let tokens: Vec<i32> = labels.tokens.iter().map(|&token| token as i32).collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [rows, 1]), &device);
    let scales = Tensor::<2>::from_data(TensorData::new(labels.scales.to_vec(), [rows, 1]), &device);
    let own = logits.clone().gather(1, tokens.clone());
    let tokens = tokens.expand([rows, vocab]);
    let columns = Tensor::<1, Int>::arange(0..vocab as i64, &device).unsqueeze::<2>().expand([rows, vocab]);
    let own_wide = own.clone().expand([rows, vocab]);
    let tied_below = logits.clone().equal(own_wide.clone()).float() * columns.clone().lower(tokens.clone()).float();
    let above = (logits.clone().greater(own_wide).float() + tied_below).sum_dim(1);
    let log_probabilities = activation::log_softmax(logits, 1);
    let hit = columns.equal(tokens).float();
    let loss = (log_probabilities.clone() * hit.clone()).sum_dim(1).neg();
    // One read for both: losses in the first column, ranks in the second.
    let read: Vec<f32> = Tensor::cat(vec![loss, above], 1).into_data().convert::<f32>().try_into_vec().expect("f32");
    for (i, pair) in read.chunks_exact(2).enumerate() {
        (losses[i], ranks[i]) = (pair[0], pair[1] as u32);
    }
    (log_probabilities.exp() - hit) * scales
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::Frozen;
    use burn::tensor::Device;

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
    fn the_device_path_says_the_same() {
        let (rows, vocab) = (9, 33);
        let mut logits = values(rows * vocab, 3);
        logits[5] = logits[7];
        let tokens: Vec<u32> = (0..rows as u32).map(|i| (i * 5 + 7) % 33).collect();
        let scales = vec![0.25f32; rows];
        let labels = Labels { tokens: &tokens, scales: &scales };
        let tensor = Tensor::<2>::from_data(TensorData::new(logits, [rows, vocab]), &Device::flex());
        let (mut a, mut b) = ((vec![0f32; rows], vec![0u32; rows]), (vec![0f32; rows], vec![0u32; rows]));
        let on_host = differentiate(tensor.clone(), labels, &mut a.0, &mut a.1);
        let on_device = differentiate_on_device(tensor, labels, &mut b.0, &mut b.1);
        assert_eq!(a.1, b.1);
        a.0.iter().zip(&b.0).for_each(|(x, y)| assert!((x - y).abs() < 1e-5));
        assert!((on_host - on_device).abs().max().into_scalar::<f32>() < 1e-6);
    }

    #[test]
    fn a_row_that_is_not_a_number_is_told() {
        let mut logits = vec![0f32; 8];
        logits[3] = f32::NAN;
        let tensor = Tensor::<2>::from_data(TensorData::new(logits, [1, 8]), &Device::flex());
        let (mut losses, mut ranks) = ([0f32], [0u32]);
        differentiate(tensor, Labels { tokens: &[1], scales: &[1.0] }, &mut losses, &mut ranks);
        assert!(losses[0].is_nan());
    }
}
