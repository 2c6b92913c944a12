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
mod tests;
