//! Tests of `launch`.

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
fn a_row_that_is_not_a_number_is_reported() {
    let mut logits = vec![0f32; 8];
    logits[3] = f32::NAN;
    let tensor = Tensor::<2>::from_data(TensorData::new(logits, [1, 8]), &Device::flex());
    let mut found = Found::new(Labels { tokens: &[1], scales: &[1.0] }, &Device::flex());
    found.differentiate(tensor, 0..1);
    assert!(found.read().0[0].is_nan());
}
