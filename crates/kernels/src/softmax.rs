//! The normaliser of a softmax over a large vocabulary.

use crate::{Isa, isa::per_isa, lanes};

/// `(max, Σ e^(x - max))` of a row on the CPU: `softmax(x)_i = e^(x_i - max) / sum`. NaN makes the sum NaN.
pub fn normaliser(row: &[f32]) -> (f32, f32) {
    normaliser_on(Isa::detect(), row)
}

per_isa! {
    fn normaliser_on(row: &[f32]) -> (f32, f32) {
        let max = lanes::max(row);
        let mut sums = [0f32; lanes::LANES];
        let chunks = row.chunks_exact(lanes::LANES);
        let rest = chunks.remainder();
        for x in chunks {
            for i in 0..lanes::LANES {
                sums[i] += lanes::exp(x[i] - max);
            }
        }
        for i in 0..rest.len() {
            sums[i] += lanes::exp(rest[i] - max);
        }
        (max, lanes::fold(sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_definition() {
        for n in [1, 7, 16, 33, 1000] {
            let row: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.2).collect();
            let (max, sum) = normaliser(&row);
            assert_eq!(max, row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let want: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
            assert!((f64::from(sum) - want).abs() < 1e-5 * want, "{sum} {want}");
        }
        assert!(normaliser(&[1.0, f32::NAN, 2.0]).1.is_nan());
        assert_eq!(normaliser(&[f32::NEG_INFINITY; 3]).0, f32::NEG_INFINITY);
    }
}
