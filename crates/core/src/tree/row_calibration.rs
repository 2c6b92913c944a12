//! Making a drafter's probabilities those of acceptance, while text is decoded.

use super::{Candidate, MAX_DEPTH};
use crate::{PooledVec, Token};

/// The least probability that is taken for one: rows are untrusted, and zeros have no logarithm.
const FLOOR: f64 = 1e-9;
/// Information in the start values, in units of what rows bring. Without it, the first rows would decide alone.
const PRIOR: f64 = 16.0;
/// The ranges of the sharpness, the weight of evidence and the shift.
const SHARPNESS: (f64, f64) = (0.1, 10.0);
const WEIGHT: (f64, f64) = (0.0, 2.0);
const SHIFT: (f64, f64) = (-8.0, 8.0);

/// The correction of one depth.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DepthCalibration {
    /// Inverse temperature `β` of the row.
    pub sharpness: f64,
    /// Weight `γ` of the evidence from the tokens before.
    pub evidence: f64,
    /// Shift `c` of the logit of all tokens that are no candidates: how much more they are likely than the row says.
    pub shift: f64,
    /// Information about the three so far: sums of second derivatives of the loss.
    information: [f64; 3],
}

impl Default for DepthCalibration {
    fn default() -> Self {
        Self { sharpness: 1.0, evidence: 0.5, shift: 0.0, information: [PRIOR; 3] }
    }
}

/// Corrections of a drafter's rows by depth, learned from verified rows.
///
/// Candidates of probability `p_i` are one outcome each, and all other tokens together are another, of probability
/// `p_o = 1 - Σ p_i`. The corrected probabilities are `softmax(β ln p_i + γ e_i, …, β ln p_o + c)`, with `β`, `γ` and
/// `c` of the parent's depth. `e_i` is the evidence for a candidate from the tokens before it
/// ([`NgramCounts`](super::NgramCounts)), which a drafter of independent positions does not have. They begin as `β = 1`,
/// `γ = 1/2`, `c = 0`. After a verified row they take a Newton step on the loss `-ln p(token that came)`, with the second
/// derivatives summed over all rows so far: `β -= g / H`, `g = Σ_i P_i ln p_i - ln p_came`, `H += Var_P(ln p)`; `γ` and
/// `c` likewise. This is the sequential form of temperature scaling (Guo et al., arXiv 1706.04599), with n-grams as a
/// product of experts (Hinton, 2002).
///
/// Rows of accepted paths alone are learned from, since a node's value is the probability of acceptance where its
/// parent was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCalibration {
    depths: Vec<DepthCalibration>,
}

/// A row's outcomes: logarithms as drafted, and corrected probabilities; the last outcome is any other token.
struct Outcomes {
    logs: PooledVec<f64>,
    corrected: PooledVec<f64>,
}

impl Default for RowCalibration {
    fn default() -> Self {
        Self { depths: vec![DepthCalibration::default(); MAX_DEPTH] }
    }
}

impl RowCalibration {
    /// No corrections. There is room for all depths, so that learning allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Corrections by depth of the parent, up to the last that was learned.
    pub fn learned(&self) -> &[DepthCalibration] {
        let count = self.depths.iter().rposition(|at| *at != DepthCalibration::default()).map_or(0, |last| last + 1);
        &self.depths[..count]
    }

    /// Start values that were measured; beyond them, a drafter's own probabilities. Numbers out of range count as none.
    pub fn starting_at(measured: &[DepthCalibration]) -> Self {
        let mut all = Self::new();
        for (depth, measured) in all.depths.iter_mut().zip(measured) {
            let DepthCalibration { sharpness, evidence, shift, information } = *measured;
            let is_finite = [sharpness, evidence, shift].iter().all(|value| value.is_finite());
            if is_finite && information.iter().all(|value| value.is_finite() && *value >= PRIOR) {
                *depth = DepthCalibration {
                    sharpness: sharpness.clamp(SHARPNESS.0, SHARPNESS.1),
                    evidence: evidence.clamp(WEIGHT.0, WEIGHT.1),
                    shift: shift.clamp(SHIFT.0, SHIFT.1),
                    information,
                };
            }
        }
        all
    }

    fn at(&self, depth: usize) -> DepthCalibration {
        self.depths.get(depth).copied().unwrap_or_default()
    }

    fn outcomes(&self, depth: usize, row: &[Candidate], evidence: &[f64]) -> Outcomes {
        let DepthCalibration { sharpness, evidence: weight, shift, .. } = self.at(depth);
        let probability = |p: f64| if p > FLOOR { p.min(1.0) } else { FLOOR };
        let mut logs: PooledVec<f64> = row.iter().map(|c| probability(c.probability).ln()).collect();
        let left = 1.0 - row.iter().map(|c| probability(c.probability)).sum::<f64>();
        logs.push(probability(left).ln());
        let weighed = |(i, log)| sharpness * log + weight * at(evidence, i);
        let mut corrected: PooledVec<f64> = logs.iter().enumerate().map(weighed).collect();
        if let Some(other) = corrected.last_mut() {
            *other += shift;
        }
        let most = corrected.iter().copied().fold(f64::MIN, f64::max);
        corrected.iter_mut().for_each(|logit| *logit = (*logit - most).exp());
        let sum: f64 = corrected.iter().sum();
        corrected.iter_mut().for_each(|p| *p /= sum);
        Outcomes { logs, corrected }
    }

    /// A row of candidates after a node of a depth, corrected, most probable first. `evidence` has a number for each
    /// candidate, or is empty.
    pub fn corrected(&self, depth: usize, row: &[Candidate], evidence: &[f64]) -> PooledVec<Candidate> {
        let outcomes = self.outcomes(depth, row, evidence);
        let corrected = row.iter().zip(&outcomes.corrected[..]);
        let mut corrected: PooledVec<Candidate> = corrected.map(|(c, &p)| Candidate { probability: p, ..*c }).collect();
        // Insertion keeps the order of equals and allocates nothing.
        for i in 1..corrected.len() {
            for j in (1..=i).rev() {
                if corrected[j].probability <= corrected[j - 1].probability {
                    break;
                }
                corrected.swap(j, j - 1);
            }
        }
        corrected
    }

    /// Learns from a row after an accepted node of a depth, its evidence, and the token that came.
    pub fn learn(&mut self, depth: usize, row: &[Candidate], evidence: &[f64], came: Token) {
        if row.is_empty() {
            return;
        }
        let Outcomes { logs, corrected } = self.outcomes(depth, row, evidence);
        let came = row.iter().position(|candidate| candidate.token == came).unwrap_or(row.len());
        let moments = |feature: &dyn Fn(usize) -> f64| {
            let mean: f64 = corrected.iter().enumerate().map(|(i, p)| p * feature(i)).sum();
            let square: f64 = corrected.iter().enumerate().map(|(i, p)| p * feature(i) * feature(i)).sum();
            (mean - feature(came), (square - mean * mean).max(0.0))
        };
        let steps =
            [moments(&|i| logs[i]), moments(&|i| at(evidence, i)), moments(&|i| f64::from(u8::from(i == row.len())))];
        let Some(depth) = self.depths.get_mut(depth) else { return };
        let values = [(&mut depth.sharpness, SHARPNESS), (&mut depth.evidence, WEIGHT), (&mut depth.shift, SHIFT)];
        for (((value, (least, most)), information), (gradient, curvature)) in
            values.into_iter().zip(&mut depth.information).zip(steps)
        {
            *information += curvature;
            *value = (*value - gradient / *information).clamp(least, most);
        }
    }
}

/// A candidate's evidence; none for tokens that are no candidates.
fn at(evidence: &[f64], candidate: usize) -> f64 {
    evidence.get(candidate).copied().filter(|evidence| evidence.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
