//! Sampling schemes: how children are taken from a drafter's distribution.

use super::RandomSource;
use crate::{
    PooledVec, Token,
    dist::{normalise, top_indices},
};

/// How the children of a node were chosen from the drafter's distribution at that node.
///
/// A lossless rule is lossless only if this is the truth. A drafter that chooses among its samples afterwards (say,
/// keeps the most likely ones) holds a [`SamplingScheme::Deterministic`] list, which is always safe to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingScheme {
    /// Independent samples (siblings may repeat a token).
    Independent,
    /// Samples without replacement, in the order of the children.
    WithoutReplacement,
    /// A deterministic list (the drafter's top k, or tokens that come with no distribution at all).
    Deterministic,
}

impl SamplingScheme {
    /// The tokens of `count` children of a node whose (transformed) draft distribution is `draft`, in the order in
    /// which a rule tries them: independent samples, samples without replacement, or the top tokens, lower ids first
    /// on ties. Without replacement, and from a list, there are fewer where fewer tokens have any mass.
    pub fn children(self, draft: &[f64], count: usize, random: &mut dyn RandomSource) -> PooledVec<Token> {
        match self {
            Self::Independent => (0..count).map(|_| random.pick(draft) as Token).collect(),
            Self::WithoutReplacement => {
                let (mut left, mut tokens) = (PooledVec::from(draft), PooledVec::new());
                while tokens.len() < count && normalise(&mut left) {
                    let index = random.pick(&left);
                    left[index] = 0.0;
                    tokens.push(index as Token);
                }
                tokens
            }
            Self::Deterministic => {
                let top = top_indices(draft, count);
                top.iter().filter(|&&index| draft[index] > 0.0).map(|&index| index as Token).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
