//! Tests of `soft`.

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

/// Against itself, a distribution has no gradient, its entropy as loss, and the same argmax.
#[test]
fn against_itself_nothing_is_left_to_learn() {
    let (rows, d, vocab) = (5, 8, 40);
    let (h, w) = (tensor(&values(rows * d, 4), [rows, d]), tensor(&values(vocab * d, 6), [vocab, d]));
    let got = soft_cross_entropy(&h, &h, &w.into(), 1.0, 3);
    assert_eq!(got.ranks, [0; 5]);
    assert!(got.d_hidden.abs().max().into_scalar::<f32>() < 1e-6);
    assert!(got.losses.iter().all(|&l| l > 0.0 && l <= (vocab as f32).ln()));
}
