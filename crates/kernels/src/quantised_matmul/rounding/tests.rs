//! Tests of rounding to codes.

use super::super::reference::dequantised;
use super::*;

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let uniform = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            uniform * uniform * uniform
        })
        .collect()
}

const FOUR_BITS: Rounding =
    Rounding { bits: CodeBits::Four, group: Some(32), scale_format: ScaleFormat::F16, search: ScaleSearch::Clipped };

#[test]
fn eight_bits_are_off_by_half_a_step_at_most() {
    let (d_in, d_out) = (100, 40);
    let weights = values(d_in * d_out, 3);
    for (group, search) in
        [(None, ScaleSearch::Fitted), (Some(32), ScaleSearch::Fitted), (Some(32), ScaleSearch::Greatest)]
    {
        let rounding = Rounding { bits: CodeBits::Eight, group, scale_format: ScaleFormat::F32, search };
        let matrix = rounding.pack(d_in, d_out, &(&weights[..], d_in)).unwrap();
        let got = dequantised(&matrix);
        for (row, (want, got)) in weights.chunks(d_in).zip(got.chunks(d_in)).enumerate() {
            for (want, got) in want.chunks(group.unwrap_or(d_in)).zip(got.chunks(group.unwrap_or(d_in))) {
                let step = want.iter().fold(0f32, |a, b| a.max(b.abs())) / 127.0;
                assert!(want.iter().zip(got).all(|(a, b)| (a - b).abs() <= step * 0.56), "row {row}");
            }
        }
    }
}

#[test]
fn searched_scales_have_less_error_than_the_usual_four_bits() {
    let mut errors = [0f64; 2];
    for seed in 1..200 {
        let weights = values(32, seed);
        let mut codes = [0u8; 32];
        let (scale, error) = FOUR_BITS.round_group(&weights, &mut codes);
        let before = errors[0];
        for (weight, code) in weights.iter().zip(codes) {
            errors[0] += f64::from(weight - scale * (f32::from(code) - 8.0)).powi(2);
        }
        assert!((errors[0] - before - error).abs() <= 1e-6 * error, "{error}");
        // The greatest weight becomes -8, as blocks of 4 bits are usually made.
        let greatest = weights.iter().fold(0f32, |a, &b| if b.abs() > a.abs() { b } else { a });
        let usual = ScaleFormat::F16.round(greatest / -8.0);
        for weight in &weights {
            let code = (weight / usual + 8.5).floor().clamp(0.0, 15.0) - 8.0;
            errors[1] += f64::from(weight - usual * code).powi(2);
        }
    }
    assert!(errors[0] < 0.9 * errors[1], "{errors:?}");
}

#[test]
fn zeros_stay_zeros_and_numbers_that_are_not_finite_are_refused() {
    let mut weights = vec![0f32; 64];
    let matrix = FOUR_BITS.pack(64, 1, &(&weights[..], 64)).unwrap();
    assert_eq!(dequantised(&matrix), weights);
    weights[7] = f32::INFINITY;
    assert!(matches!(FOUR_BITS.pack(64, 1, &(&weights[..], 64)), Err(PackError::Overflow { .. })));
}

/// Clipping `c` of the greatest weight `M` costs `(c M)²`, and makes the errors `M² / (12 m²)` of `n` other weights smaller
/// by a share of some `2 c`, `m` the outermost code. So it pays where `c < n / (6 m²)`: in 8 bits only in wide rows.
#[test]
fn clipping_pays_where_one_weight_is_far_out() {
    for (bits, width) in [(CodeBits::Four, 128), (CodeBits::Eight, 8192)] {
        let mut errors = [0f64; 3];
        for seed in 1..40 {
            let mut weights: Vec<f32> = values(width, seed).into_iter().map(|weight| 0.8 * weight).collect();
            weights[seed as usize] = 1.0;
            let searches = [ScaleSearch::Greatest, ScaleSearch::Fitted, ScaleSearch::Clipped];
            for (search, sum) in searches.into_iter().zip(&mut errors) {
                let rounding = Rounding { bits, group: None, scale_format: ScaleFormat::F32, search };
                let rounded = rounding.round(width, 1, &(&weights[..], width)).unwrap();
                assert!(bits == CodeBits::Four || rounded.codes.scales[0] > 0.0);
                *sum += rounded.squared_error / rounded.squared_weights;
            }
        }
        assert!(errors[2] < 0.98 * errors[0].min(errors[1]), "{bits:?} {errors:?}");
    }
}
