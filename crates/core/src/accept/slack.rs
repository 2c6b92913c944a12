//! Slack: how far acceptance may stray from the distribution it aims at.

use crate::{
    PooledVec,
    dist::{overlap, residual},
};

/// Accept with `min(1, p / ((1-α)q))`, residual `norm(max(0, p/β - q))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slack {
    pub alpha: f64,
    pub beta: Beta,
}

impl Slack {
    /// No straying: the output distribution is exactly the one aimed at.
    pub const NONE: Self = Self { alpha: 0.0, beta: Beta::Fixed(1.0) };
}

/// How the residual of lossy sampling weighs the target: `norm(max(0, p/β - q))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beta {
    /// This value, at least `1-α`; 1 is the usual choice.
    Fixed(f64),
    /// [`balanced_beta`], found anew for every pair of distributions.
    Balanced,
}

impl Beta {
    /// The value for one pair of distributions. Where nothing balances, nothing is ever rejected, and 1 does as well
    /// as any.
    pub(super) fn value(self, target: &[f64], draft: &[f64], alpha: f64) -> f64 {
        match self {
            Self::Fixed(beta) => beta,
            Self::Balanced => balanced_beta(target, draft, alpha).unwrap_or(1.0),
        }
    }
}

/// The output distribution of lossy sampling of one draft from `q`:
/// `min(q, p/(1-α)) + (1 - Σ_v min(q, p/(1-α)))·norm(max(0, p/β - q))`, the residual being `p` where it is empty.
///
/// # Shapes
/// `target [vocab]` and `draft [vocab]` to `[vocab]`.
pub fn lossy_distribution(target: &[f64], draft: &[f64], alpha: f64, beta: f64) -> PooledVec<f64> {
    let loose: PooledVec<f64> = target.iter().map(|p| p / (1.0 - alpha)).collect();
    let scaled: PooledVec<f64> = target.iter().map(|p| p / beta).collect();
    let left = residual(&scaled, draft).unwrap_or_else(|| target.into());
    let rejected = 1.0 - overlap(&loose, draft);
    let accepted = loose.iter().zip(draft).map(|(p, &q)| p.min(q));
    accepted.zip(&left).map(|(accepted, left)| accepted + rejected * left).collect()
}

/// The β at which `π = max{min{q, p/(1-α)}, p/β}` sums to 1, so that [`lossy_distribution`] equals `π` (Narasimhan et
/// al. 2024, lemma 2). By bisection: the sum falls with β, from at least 1 at `β = 1-α`. `None` where it stays above 1
/// for every finite β, which takes a draft that is always accepted.
///
/// # Shapes
/// `target [vocab]`, `draft` of any length.
pub fn balanced_beta(target: &[f64], draft: &[f64], alpha: f64) -> Option<f64> {
    let draft = || draft.iter().copied().chain(std::iter::repeat(0.0));
    let excess = |beta: f64| {
        let kept = target.iter().zip(draft()).map(|(&p, q)| q.min(p / (1.0 - alpha)).max(p / beta));
        kept.sum::<f64>() - 1.0
    };
    let (mut low, mut high) = (1.0 - alpha, 2.0);
    while excess(high) > 0.0 {
        (low, high) = (high, high * 2.0);
        if high > 1e12 {
            return None;
        }
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return Some(high);
        }
        if excess(middle) > 0.0 { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests;
