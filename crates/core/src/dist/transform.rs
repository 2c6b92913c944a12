//! Sampling transforms: from a row of logits or probabilities to the distribution that tokens are drawn from.

use super::{argmax, normalise, point_mass, softmax, top_indices};
use crate::PooledVec;

/// One node's distribution, as it came from a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row<'a> {
    /// Logits `[vocab]`; a softmax makes them probabilities.
    Logits(&'a [f32]),
    /// Probabilities `[vocab]`, normalised on use.
    Probabilities(&'a [f64]),
}

impl Row<'_> {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        match self {
            Self::Logits(row) => row.len(),
            Self::Probabilities(row) => row.len(),
        }
    }

    /// Whether the row has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most likely token, the lowest id on ties; 0 if the row holds nothing but NaN.
    pub fn argmax(&self) -> usize {
        let index = match self {
            Self::Logits(row) => argmax(row),
            Self::Probabilities(row) => argmax(row),
        };
        index.unwrap_or(0)
    }

    /// Whether the row describes a distribution at all: no NaN; logits below positive infinity with at least one
    /// finite; probabilities finite and non-negative with a positive sum. A drafter's row that is not valid is not
    /// used.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Logits(row) => row.iter().all(|&x| x < f32::INFINITY) && row.iter().any(|x| x.is_finite()),
            Self::Probabilities(row) => {
                let sum: f64 = row.iter().sum();
                row.iter().all(|&p| p >= 0.0) && sum > 0.0 && sum.is_finite()
            }
        }
    }
}

/// A sampling transform a person asked for that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TransformError {
    /// The temperature is negative or no number.
    #[error("temperature {0} is out of range; it must be a finite number of at least 0 (0 is greedy)")]
    Temperature(f64),
    /// Top-k keeps nothing.
    #[error("top-k 0 would keep no token; it must be at least 1 (leave it out to keep all)")]
    TopK,
    /// Top-p is no probability.
    #[error("top-p {0} is out of range; it must be between 0 and 1")]
    TopP(f64),
}

/// Temperature, then top-k, then top-p, each renormalising: `p` and `q` go through the same one before a lossless rule
/// compares them, and "the target's distribution" means the one after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
}

impl Transform {
    /// The model's own distribution: temperature 1, nothing cut.
    pub const IDENTITY: Self = Self { temperature: 1.0, top_k: None, top_p: None };
    /// All mass on the top-1 token: temperature 0.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: None, top_p: None };

    /// A transform that divides logits by `temperature` (0: all mass on the top-1 token), keeps the `top_k` most
    /// likely tokens, and of those the fewest, most likely first, whose sum exceeds `top_p` (the token that crosses it
    /// stays). Among equally likely tokens lower ids are kept first, so exactly `top_k` tokens stay.
    ///
    /// # Errors
    /// When a value is out of range.
    pub fn new(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> Result<Self, TransformError> {
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(TransformError::Temperature(temperature));
        }
        if top_k == Some(0) {
            return Err(TransformError::TopK);
        }
        if let Some(top_p) = top_p.filter(|top_p| !(0.0..=1.0).contains(top_p)) {
            return Err(TransformError::TopP(top_p));
        }
        Ok(Self { temperature, top_k, top_p })
    }

    /// The temperature.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// The settings that change nothing, in words: at temperature 0 there is nothing to cut.
    pub fn without_effect(&self) -> Option<String> {
        let top_k = self.top_k.map(|top_k| format!("top-k {top_k}"));
        let top_p = self.top_p.map(|top_p| format!("top-p {top_p}"));
        let named: Vec<String> = top_k.into_iter().chain(top_p).collect();
        let cut = self.temperature == 0.0 && !named.is_empty();
        let verb = if named.len() == 1 { "has" } else { "have" };
        cut.then(|| format!("{} {verb} no effect at temperature 0", named.join(" and ")))
    }

    /// How many of the most likely tokens are kept; `None` for all.
    pub fn top_k(&self) -> Option<usize> {
        self.top_k
    }

    /// The mass of the most likely tokens that is kept; `None` for all.
    pub fn top_p(&self) -> Option<f64> {
        self.top_p
    }

    /// Copy with this temperature, without top-k and top-p.
    pub fn uncut(&self) -> Self {
        Self { temperature: self.temperature, top_k: None, top_p: None }
    }

    /// Whether every distribution becomes a point mass because the temperature is 0.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// The distribution that `row` becomes. Total: NaN entries get no mass, see [`softmax`].
    ///
    /// # Shapes
    /// `row [vocab]` to `[vocab]`. The vocabulary is sorted only as far as top-k and top-p need.
    pub fn apply(&self, row: Row<'_>) -> PooledVec<f64> {
        if self.is_greedy() {
            return point_mass(row.len(), row.argmax());
        }
        let mut p = match row {
            Row::Logits(scores) => softmax(scores, self.temperature),
            Row::Probabilities(probabilities) => tempered(probabilities, self.temperature),
        };
        if let Some(count) = self.top_k.filter(|&count| count < p.len()) {
            p = keep(&p, &top_indices(&p, count));
        }
        if let Some(top_p) = self.top_p.filter(|&top_p| top_p < 1.0) {
            p = keep(&p, &nucleus(&p, top_p));
        }
        p
    }
}

impl Default for Transform {
    /// Temperature 0, the command line's default.
    fn default() -> Self {
        Self::GREEDY
    }
}

/// `norm(p^(1/T))`: temperature applied to probabilities.
fn tempered(probabilities: &[f64], temperature: f64) -> PooledVec<f64> {
    let Some(best) = argmax(probabilities) else { return point_mass(probabilities.len(), 0) };
    let greatest = probabilities[best];
    if !(greatest > 0.0 && greatest.is_finite()) {
        return point_mass(probabilities.len(), best);
    }
    let weight = |&p: &f64| match p > 0.0 {
        false => 0.0, // also NaN
        true if temperature == 1.0 => p,
        // Relative to the greatest, so that a low temperature cannot underflow every entry.
        true => (p / greatest).powf(temperature.recip()),
    };
    let mut p: PooledVec<f64> = probabilities.iter().map(weight).collect();
    normalise(&mut p);
    p
}

/// The distribution restricted to `indices` and renormalised.
fn keep(p: &[f64], indices: &[usize]) -> PooledVec<f64> {
    let mut kept = PooledVec::of(0.0, p.len());
    for &index in indices {
        kept[index] = p[index];
    }
    normalise(&mut kept);
    kept
}

/// The most likely tokens up to and including the one with which their sum first exceeds `top_p`.
fn nucleus(p: &[f64], top_p: f64) -> PooledVec<usize> {
    // A nucleus is mostly tiny beside the vocabulary: look at a short sorted head first, and at more only if needed.
    let mut count = 64.min(p.len());
    loop {
        let mut order = top_indices(p, count);
        let mut sum = 0.0;
        let crossing = order.iter().position(|&index| {
            sum += p[index];
            sum > top_p
        });
        if let Some(last) = crossing {
            order.truncate(last + 1);
            return order;
        }
        if count == p.len() {
            return order;
        }
        count = (count * 4).min(p.len());
    }
}

#[cfg(test)]
mod tests;
