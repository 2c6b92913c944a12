//! Tests of `launch`.

use super::super::reference;
use super::*;
use crate::{Frozen, Table};
use burn::tensor::{Device, TensorData};

const ALL: [Divergence; 5] = [
    Divergence::ForwardKl,
    Divergence::ReverseKl,
    Divergence::JensenShannon(0.5),
    Divergence::JensenShannon(0.1),
    Divergence::TotalVariation,
];

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 1.5).collect()
}

fn tensor(values: &[f32], shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

const SIZES: (usize, usize, usize, usize) = (7, 12, 20, 50);

/// The sum of all rows' divergences, in double precision.
fn total(kind: Divergence, h: &[f64], w: &[f64], t: &[f64], u: &[f64]) -> f64 {
    let (_, d, wide, _) = SIZES;
    let rows = h.chunks_exact(d).zip(t.chunks_exact(wide));
    rows.map(|(h, t)| reference::divergence(kind, &reference::distribution(t, u), &reference::distribution(h, w))).sum()
}

/// Losses are the definition's, and gradients its slopes, whatever the chunk.
#[test]
fn equals_the_definition_and_its_slopes() {
    let (rows, d, width, vocab) = SIZES;
    let (h, w) = (values(rows * d, 1), values(vocab * d, 2));
    let (t, u) = (values(rows * width, 5), values(vocab * width, 6));
    let (wide_h, wide_w, wide_t, wide_u) = (wide(&h), wide(&w), wide(&t), wide(&u));
    let slope = |kind, at: usize, of_weight: bool| {
        let moved = |by: f64| {
            let (mut h, mut w) = (wide_h.clone(), wide_w.clone());
            if of_weight {
                w[at] += by
            } else {
                h[at] += by
            }
            total(kind, &h, &w, &wide_t, &wide_u)
        };
        (moved(1e-5) - moved(-1e-5)) / 2e-5
    };
    for kind in ALL {
        for chunk in [1, 3, 100] {
            let tensors = (tensor(&h, [rows, d]), Table::from(tensor(&w, [vocab, d])));
            let others =
                (tensor(&t, [rows, width]), Table::frozen(tensor(&u, [vocab, width]), Frozen::default()).unwrap());
            let draft = Projected::new(&tensors.0, &tensors.1);
            let target = Projected::new(&others.0, &others.1);
            let got = linear_divergence(draft, target, kind, Some(0.3), chunk);
            let sum: f64 = got.losses.iter().map(|&x| f64::from(x)).sum();
            let expected = total(kind, &wide_h, &wide_w, &wide_t, &wide_u);
            assert!((sum - expected).abs() < 1e-4 * expected, "{kind:?}: {sum} {expected}");
            let (of_h, of_w) = got.gradients.unwrap();
            for (gradient, of_weight) in [(of_h, false), (of_w, true)] {
                let gradient = gradient.into_data().try_into_vec::<f32>().unwrap();
                for at in (0..gradient.len()).step_by(7) {
                    let expected = 0.3 * slope(kind, at, of_weight);
                    assert!((f64::from(gradient[at]) - expected).abs() < 2e-5, "{kind:?}: {expected}");
                }
            }
            let measured = linear_divergence(draft, target, kind, None, chunk);
            assert_eq!(measured.losses, got.losses);
            assert!(measured.gradients.is_none());
        }
    }
}

/// Total variation is what speculative sampling rejects, and a distribution is no distance from itself.
#[test]
fn overlap_is_what_total_variation_leaves() {
    let (rows, vocab) = (9, 33);
    let (h, w) = (tensor(&values(rows * 8, 3), [rows, 8]), Table::from(tensor(&values(vocab * 8, 4), [vocab, 8])));
    let t = tensor(&values(rows * 8, 9), [rows, 8]);
    let of = |hidden| Projected::new(hidden, &w);
    let other = linear_divergence(of(&h), of(&t), Divergence::TotalVariation, None, 4);
    other.losses.iter().zip(&other.overlaps).for_each(|(tv, o)| assert!((tv + o - 1.0).abs() < 1e-5));
    for kind in ALL {
        let own = linear_divergence(of(&h), of(&h), kind, Some(1.0), 4);
        assert!(own.losses.iter().all(|loss| loss.abs() < 1e-6), "{kind:?}");
        assert_eq!(own.agrees, [true; 9]);
        assert!(own.gradients.unwrap().0.abs().max().into_scalar::<f32>() < 1e-5, "{kind:?}");
    }
}

#[test]
fn what_is_no_number_is_told_and_targets_can_be_capped() {
    let (h, w) = (tensor(&values(8, 3), [1, 8]), Table::from(tensor(&values(80, 4), [10, 8])));
    let bad = tensor(&[f32::NAN; 8], [1, 8]);
    let of = |hidden, soft_cap| Projected { hidden, weight: &w, soft_cap };
    for kind in ALL {
        assert!(linear_divergence(of(&bad, None), of(&h, None), kind, None, 4).losses[0].is_nan());
    }
    let capped = linear_divergence(of(&h, None), of(&h, Some(1e-6)), Divergence::ForwardKl, None, 4);
    // A cap near 0 leaves a uniform distribution.
    let target = reference::distribution(&wide(&values(8, 3)), &wide(&values(80, 4)));
    let expected = reference::divergence(Divergence::ForwardKl, &[0.1; 10], &target);
    assert!((f64::from(capped.losses[0]) - expected).abs() < 1e-4);
}
