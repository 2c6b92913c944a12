//! Divergences on a GPU against those on the CPU.

use super::*;
use crate::Table;
use crate::device::tests::{device, tensor, value, values_of};
use crate::projected::Projected;
use burn::tensor::Device;

const ALL: [Divergence; 5] = [
    Divergence::ForwardKl,
    Divergence::ReverseKl,
    Divergence::JensenShannon(0.5),
    Divergence::JensenShannon(0.1),
    Divergence::TotalVariation,
];

/// Rows of logits as they are: states under an identity.
fn found(on: &Device, logits: &[f32], targets: &[f32], kind: Divergence, chunk: usize) -> LinearDivergence {
    let vocab = 40;
    let identity: Vec<f32> = (0..vocab * vocab).map(|i| f32::from(u8::from(i % (vocab + 1) == 0))).collect();
    let table = Table::from(tensor(identity, [vocab, vocab], on));
    let rows = logits.len() / vocab;
    let [h, t] = [logits, targets].map(|values| tensor(values.to_vec(), [rows, vocab], on));
    linear_divergence(Projected::new(&h, &table), Projected::new(&t, &table), kind, Some(0.5), chunk)
}

#[test]
fn a_gpu_says_what_the_cpu_says() {
    let Some(device) = device() else { return };
    let (rows, vocab) = (9, 40);
    let mut logits: Vec<f32> = (0..rows * vocab).map(|i| value(i * 3 + 1) * 2.0).collect();
    let mut targets: Vec<f32> = (0..rows * vocab).map(|i| value(i * 5 + 2) * 2.0).collect();
    // One token of which one network is certain, one that neither ever says, and two that agree.
    logits[0] = 200.0;
    (logits[vocab + 4], targets[vocab + 4]) = (-300.0, -300.0);
    (logits[3 * vocab + 7], targets[3 * vocab + 7]) = (5.0, 6.0);
    for (kind, chunk) in ALL.into_iter().flat_map(|kind| [(kind, 4), (kind, 100)]) {
        let want = found(&Device::flex(), &logits, &targets, kind, chunk);
        let got = found(&device, &logits, &targets, kind, chunk);
        assert_eq!(got.agrees, want.agrees);
        assert!(want.agrees[3] && !want.agrees[0]);
        for (a, b) in got.losses.iter().zip(&want.losses).chain(got.overlaps.iter().zip(&want.overlaps)) {
            assert!((a - b).abs() < 2e-5 * (1.0 + b), "{kind:?}: {a} {b}");
        }
        let (got, want) = (got.gradients.unwrap(), want.gradients.unwrap());
        for (got, want) in [(got.0, want.0), (got.1, want.1)] {
            for (a, b) in values_of(got).iter().zip(values_of(want)) {
                assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{kind:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn rows_that_are_no_numbers_are_reported() {
    let Some(device) = device() else { return };
    let (mut logits, targets) = (vec![0.5; 80], vec![0.25; 80]);
    logits[50] = f32::NAN;
    for kind in ALL {
        let losses = found(&device, &logits, &targets, kind, 2).losses;
        assert!(losses[0].is_finite() && losses[1].is_nan(), "{kind:?}: {losses:?}");
    }
}
