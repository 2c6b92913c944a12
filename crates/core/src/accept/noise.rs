//! Noise by position and token: the random numbers of plain sampling, which drafters may know beforehand.

use crate::Token;

/// The weight of splitmix64's counter.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Noise of one sequence: a number for every position and token, computed when it is asked for, in any order.
///
/// Plain sampling emits `argmax_x (ln p(x) + G(x))` with standard Gumbel noise `G = -ln E`, `E = -ln u` and `u` uniform
/// (Gumbel 1954; [Maddison et al., 2014](https://arxiv.org/abs/1411.0030)). That token has the distribution `p`. It is
/// computed as `argmax_x p(x)/E(x)`, the same token with one logarithm less.
///
/// `u` is the output of [splitmix64](https://doi.org/10.1145/2714064.2660195) with the counter `token + 1`, whose state
/// hashes key and position. So it is the same for any order, thread and batch; logarithms are computed in `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    key: u64,
}

impl Noise {
    /// The noise of one sequence under `seed`. Sequences with different numbers have independent noise.
    pub fn new(seed: u64, sequence: u64) -> Self {
        Self { key: hash([seed, sequence]) }
    }

    /// Another sequence's noise, which follows from this one's.
    pub fn following(self) -> Self {
        Self { key: hash([self.key, 1]) }
    }

    /// The number that it all follows from.
    pub fn key(self) -> u64 {
        self.key
    }

    /// `E = -ln u` at a position: exponentially distributed, positive and finite.
    pub fn exponential(self, position: usize, token: Token) -> f64 {
        exponential(self.at(position), token)
    }

    /// The index at which `weight/E` is greatest, the lowest on ties: each with probability proportional to its weight.
    /// Never one of weight 0, unless all are.
    pub fn pick(self, position: usize, weights: &[f64]) -> usize {
        let state = self.at(position);
        let (mut best, mut greatest) = (0, 0.0);
        for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let score = weight / exponential(state, index as Token);
            if score > greatest {
                (best, greatest) = (index, score);
            }
        }
        best
    }

    /// The noise from a position on.
    pub fn ahead(self, position: usize) -> NoiseAhead {
        NoiseAhead { noise: self, position }
    }

    fn at(self, position: usize) -> u64 {
        hash([self.key, position as u64])
    }
}

/// A sequence's noise from a position on: by depth, as nodes of a tree count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseAhead {
    noise: Noise,
    position: usize,
}

impl NoiseAhead {
    /// The sequence's noise, at all positions.
    pub fn of_sequence(&self) -> Noise {
        self.noise
    }

    /// `E` of a token that is emitted `depth` tokens after the position.
    pub fn exponential(self, depth: usize, token: Token) -> f64 {
        self.noise.exponential(self.position + depth, token)
    }
}

fn exponential(state: u64, token: Token) -> f64 {
    let bits = finalise(state.wrapping_add((u64::from(token) + 1).wrapping_mul(GOLDEN)));
    // An odd multiple of 2^-53: neither 0 nor 1.
    -(((bits >> 12) as f64 + 0.5) * 2.0_f64.powi(-52)).ln()
}

/// The finaliser of splitmix64: a bijection in which every bit of the input moves every bit of the output.
const fn finalise(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A hash of numbers in their order.
pub fn hash(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let step = |state: u64, number| finalise(finalise(state.wrapping_add(GOLDEN)) ^ number);
    finalise(numbers.into_iter().fold(0, step).wrapping_add(GOLDEN))
}

#[cfg(test)]
mod tests;
