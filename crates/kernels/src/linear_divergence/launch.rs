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
    /// Whether both have the same likeliest token.
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
                // Both agree where nothing beats the target's likeliest token.
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
mod tests {
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
        rows.map(|(h, t)| reference::divergence(kind, &reference::law(t, u), &reference::law(h, w))).sum()
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
        let law = reference::law(&wide(&values(8, 3)), &wide(&values(80, 4)));
        let expected = reference::divergence(Divergence::ForwardKl, &[0.1; 10], &law);
        assert!((f64::from(capped.losses[0]) - expected).abs() < 1e-4);
    }
}
