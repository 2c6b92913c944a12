//! Making a drafter's probabilities those of acceptance, while text is decoded.

use super::{Candidate, MAX_DEPTH};
use crate::{PooledVec, Token};

/// The least probability that is taken for one: rows are untrusted, and zeros have no logarithm.
const FLOOR: f64 = 1e-9;
/// Information in the start values, in units of what rows bring. Without it, the first rows would decide alone.
const PRIOR: f64 = 16.0;
/// The range of the sharpness, and of the shift.
const SHARPNESS: (f64, f64) = (0.1, 10.0);
const SHIFT: (f64, f64) = (-8.0, 8.0);

/// The correction of one depth.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DepthCalibration {
    /// Inverse temperature `β` of the row.
    pub sharpness: f64,
    /// Shift `c` of the logit of all tokens that are no candidates: how much more they are likely than the row says.
    pub shift: f64,
    /// Information about both so far: sums of second derivatives of the loss.
    information: (f64, f64),
}

impl Default for DepthCalibration {
    fn default() -> Self {
        Self { sharpness: 1.0, shift: 0.0, information: (PRIOR, PRIOR) }
    }
}

/// Corrections of a drafter's rows by depth, learned from verified rows.
///
/// Candidates of probability `p_i` are one outcome each, and all other tokens together are another, of probability
/// `p_o = 1 - Σ p_i`. The corrected probabilities are `softmax(β ln p_1, …, β ln p_K, β ln p_o + c)`, with `β` and `c`
/// of the parent's depth. They begin as the drafter's own (`β = 1`, `c = 0`). After a verified row they take a Newton
/// step on the loss `-ln p(token that came)`, with the second derivatives summed over all rows so far:
/// `β -= g / H`, `g = Σ_i P_i ln p_i - ln p_came`, `H += Var_P(ln p)`; `c` likewise. This is the sequential form of
/// temperature scaling (Guo et al., arXiv 1706.04599).
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
            let (a, b) = measured.information;
            let sane = measured.sharpness.is_finite() && measured.shift.is_finite() && a >= PRIOR && b >= PRIOR;
            if sane && a.is_finite() && b.is_finite() {
                *depth = DepthCalibration {
                    sharpness: measured.sharpness.clamp(SHARPNESS.0, SHARPNESS.1),
                    shift: measured.shift.clamp(SHIFT.0, SHIFT.1),
                    information: (a, b),
                };
            }
        }
        all
    }

    fn at(&self, depth: usize) -> DepthCalibration {
        self.depths.get(depth).copied().unwrap_or_default()
    }

    fn outcomes(&self, depth: usize, row: &[Candidate]) -> Outcomes {
        let DepthCalibration { sharpness, shift, .. } = self.at(depth);
        let probability = |p: f64| if p > FLOOR { p.min(1.0) } else { FLOOR };
        let mut logs: PooledVec<f64> = row.iter().map(|c| probability(c.probability).ln()).collect();
        let left = 1.0 - row.iter().map(|c| probability(c.probability)).sum::<f64>();
        logs.push(probability(left).ln());
        let mut corrected: PooledVec<f64> = logs.iter().map(|log| sharpness * log).collect();
        if let Some(other) = corrected.last_mut() {
            *other += shift;
        }
        let most = corrected.iter().copied().fold(f64::MIN, f64::max);
        corrected.iter_mut().for_each(|logit| *logit = (*logit - most).exp());
        let sum: f64 = corrected.iter().sum();
        corrected.iter_mut().for_each(|p| *p /= sum);
        Outcomes { logs, corrected }
    }

    /// A row of candidates after a node of a depth, corrected. Their order stays.
    pub fn corrected(&self, depth: usize, row: &[Candidate]) -> PooledVec<Candidate> {
        let outcomes = self.outcomes(depth, row);
        row.iter().zip(&outcomes.corrected[..]).map(|(c, &p)| Candidate { probability: p, ..*c }).collect()
    }

    /// Learns from a row after an accepted node of a depth, and the token that came.
    pub fn learn(&mut self, depth: usize, row: &[Candidate], came: Token) {
        if row.is_empty() {
            return;
        }
        let Outcomes { logs, corrected } = self.outcomes(depth, row);
        let came = row.iter().position(|candidate| candidate.token == came).unwrap_or(row.len());
        let mean: f64 = corrected.iter().zip(&logs[..]).map(|(p, log)| p * log).sum();
        let square: f64 = corrected.iter().zip(&logs[..]).map(|(p, log)| p * log * log).sum();
        let Some(at) = self.depths.get_mut(depth) else { return };
        let other = corrected[row.len()];
        at.information.0 += (square - mean * mean).max(0.0);
        at.information.1 += other * (1.0 - other);
        let gradient = (mean - logs[came], other - f64::from(u8::from(came == row.len())));
        at.sharpness = (at.sharpness - gradient.0 / at.information.0).clamp(SHARPNESS.0, SHARPNESS.1);
        at.shift = (at.shift - gradient.1 / at.information.1).clamp(SHIFT.0, SHIFT.1);
    }
}

#[cfg(test)]
mod tests;
