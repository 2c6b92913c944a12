//! Distributions over the vocabulary: softmax, temperature, top-k, top-p, residuals, entropy.
//!
//! A *distribution* is a row of `f64` probabilities `[vocab]`. Everything here is total: rows that come from an
//! untrusted drafter may hold NaN or infinities, and the worst outcome is a poor distribution, never a panic. Where
//! two tokens are equally likely the lower id comes first, everywhere.

mod transform;

pub use transform::{Row, Transform, TransformError};

use crate::{PooledVec, Token};

/// Scores compared at a time: enough for a processor to compare them side by side.
const LANES: usize = 32;

/// The index of the greatest score, the lowest on ties. NaN is never the greatest; `None` if there is nothing else.
pub fn argmax<S: Copy + PartialOrd>(scores: &[S]) -> Option<usize> {
    let first = scores.iter().position(is_number)?;
    let mut lanes = [scores[first]; LANES];
    let chunks = scores[first..].chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (greatest, &score) in lanes.iter_mut().zip(chunk) {
            // A comparison with NaN is false, so the lanes never hold one.
            *greatest = if score > *greatest { score } else { *greatest };
        }
    }
    let greatest = lanes.iter().chain(rest).fold(lanes[0], |a, &b| if b > a { b } else { a });
    scores.iter().position(|&score| score == greatest)
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_number<S: PartialOrd>(score: &S) -> bool {
    score == score
}

/// The indices of the `count` greatest scores, best first, the lower index first on ties; fewer if there are fewer.
/// NaN counts as negative infinity. Takes time linear in the vocabulary plus a sort of `count` entries.
pub fn top_indices<S: Copy + Into<f64>>(scores: &[S], count: usize) -> PooledVec<usize> {
    let key = |index: usize| {
        let score: f64 = scores[index].into();
        // Adding zero turns -0.0 into 0.0, which a total order would tell apart.
        if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 }
    };
    let order = |a: &usize, b: &usize| key(*b).total_cmp(&key(*a)).then(a.cmp(b));
    let count = count.min(scores.len());
    if count == 0 {
        return PooledVec::new();
    }
    let mut top: PooledVec<usize>;
    if count > LANES {
        top = (0..scores.len()).collect();
        top.select_nth_unstable_by(count - 1, order);
        top.truncate(count);
        top.sort_unstable_by(order);
        return top;
    }
    // The best so far, in order. Scores come in with growing indices, so one that only equals the last of them stays
    // out.
    top = (0..count).collect();
    top.sort_unstable_by(order);
    let mut least = key(top[count - 1]);
    for (chunk, start) in scores[count..].chunks(LANES).zip((count..).step_by(LANES)) {
        if !chunk.iter().fold(false, |any, &score| any | (score.into() > least)) {
            continue;
        }
        for index in start..start + chunk.len() {
            if key(index) > least {
                let at = top.partition_point(|&better| key(better) >= key(index));
                top.pop();
                top.insert(at, index);
                least = key(top[count - 1]);
            }
        }
    }
    top
}

/// `softmax(scores / temperature)`, computed in `f64` relative to the greatest score.
///
/// Temperature 0 is the limit: all mass on the greatest score, the lowest index on ties. NaN and negative infinity get
/// no mass; positive infinities share it. A row with nothing but NaN or negative infinities puts all mass on index 0.
///
/// # Shapes
/// `scores [vocab]` to `[vocab]`.
pub fn softmax<S: Copy + PartialOrd + Into<f64>>(scores: &[S], temperature: f64) -> PooledVec<f64> {
    let Some(best) = argmax(scores) else { return point_mass(scores.len(), 0) };
    let greatest: f64 = scores[best].into();
    if temperature == 0.0 || greatest == f64::NEG_INFINITY {
        return point_mass(scores.len(), best);
    }
    let weight = |&score: &S| {
        let score: f64 = score.into();
        if score == greatest {
            1.0
        } else if score.is_nan() {
            0.0
        } else {
            ((score - greatest) / temperature).exp()
        }
    };
    let mut p: PooledVec<f64> = scores.iter().map(weight).collect();
    normalise(&mut p);
    p
}

/// All mass on `index`, over `vocab` tokens.
pub fn point_mass(vocab: usize, index: usize) -> PooledVec<f64> {
    let mut p = PooledVec::of(0.0, vocab);
    if let Some(entry) = p.get_mut(index) {
        *entry = 1.0;
    }
    p
}

/// The probability of `token`; zero beyond the end of the row, so a drafter's vocabulary may differ from the target's.
pub fn mass(p: &[f64], token: Token) -> f64 {
    p.get(token as usize).copied().unwrap_or(0.0)
}

/// Scales `weights` to sum to 1. Returns false, and leaves them alone, when their sum is not positive and finite.
pub fn normalise(weights: &mut [f64]) -> bool {
    let sum: f64 = weights.iter().sum();
    let is_distribution = sum > 0.0 && sum.is_finite();
    if is_distribution {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
    is_distribution
}

/// The residual `norm(max(0, p - q))` of speculative sampling (Leviathan et al. 2023): what the target `p` wants more
/// of than the draft `q` gives. `None` when nothing is left, which is when `q >= p` everywhere.
///
/// # Shapes
/// `target [vocab]`, `draft` of any length (missing entries are 0) to `[vocab]`.
pub fn residual(target: &[f64], draft: &[f64]) -> Option<PooledVec<f64>> {
    let draft = draft.iter().copied().chain(std::iter::repeat(0.0));
    let mut left: PooledVec<f64> = target.iter().zip(draft).map(|(&p, q)| (p - q).max(0.0)).collect();
    normalise(&mut left).then_some(left)
}

/// `Σ_x min(p(x), q(x))`: the probability that speculative sampling accepts one draft (Leviathan et al. 2023).
pub fn overlap(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(&p, &q)| p.min(q)).sum()
}

/// Total variation distance `TV(p, q) = Σ_x max(0, p(x) - q(x))` between two distributions; missing entries are 0.
pub fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    let q = q.iter().copied().chain(std::iter::repeat(0.0));
    p.iter().zip(q).map(|(&p, q)| (p - q).max(0.0)).sum()
}

/// Shannon entropy `-Σ p ln p` in nats, with `0 ln 0 = 0`.
pub fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|&&p| p > 0.0).map(|&p| p * p.ln()).sum::<f64>()
}

/// Medusa's entropy `-Σ p ln(p + 1e-5)` in nats (its reference implementation): within about 1e-5·V of [`entropy`],
/// and slightly below 0 for a point mass.
pub fn smoothed_entropy(p: &[f64]) -> f64 {
    -p.iter().map(|&p| p * (p + 1e-5).ln()).sum::<f64>()
}

/// The threshold of typical acceptance, `min(ε, δ·exp(-H(p)))` with [`smoothed_entropy`] (Medusa, section 2.3.1).
pub fn typical_threshold(p: &[f64], epsilon: f64, delta: f64) -> f64 {
    epsilon.min(delta * (-smoothed_entropy(p)).exp())
}

/// The distribution of one typical sample (Medusa's reference implementation): tokens less likely than
/// [`typical_threshold`] are removed and the rest renormalised. If that removes everything, the top-1 token stays.
pub fn typical_filter(p: &[f64], epsilon: f64, delta: f64) -> PooledVec<f64> {
    let threshold = typical_threshold(p, epsilon, delta);
    let mut kept: PooledVec<f64> = p.iter().map(|&p| if p < threshold { 0.0 } else { p }).collect();
    if !normalise(&mut kept) {
        return point_mass(p.len(), argmax(p).unwrap_or(0));
    }
    kept
}

#[cfg(test)]
mod tests;
