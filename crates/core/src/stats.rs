//! The analysis of speculative decoding: expected tokens, gains, best draft length (Leviathan et al., *Fast Inference
//! from Transformers via Speculative Decoding*).
//!
//! `α` is the probability that a draft is accepted given that those before it were, `γ` the number of drafts per step.
//! Cost ratios are those of one draft to one target step: `c` in time, `ĉ` in operations. A target step over the whole
//! chain is taken to last as long as one over a single token.

use crate::tree::TokenTree;

/// An argument outside its domain.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// A probability lies outside `[0, 1]`.
    #[error("the acceptance probability is {0}; it must lie in [0, 1]")]
    Acceptance(f64),
    /// A cost ratio is negative or no finite number.
    #[error("the cost of a draft relative to a target step is {0}; it must be a finite number of 0 or more")]
    CostRatio(f64),
    /// A tree node's probability lies outside `[0, 1]`.
    #[error("the acceptance probability of tree node {node} is {value}; it must lie in [0, 1]")]
    NodeAcceptance {
        /// The node.
        node: usize,
        /// The value.
        value: f64,
    },
    /// Not one probability per node.
    #[error("{values} acceptance probabilities were given for a tree of {nodes} nodes")]
    NodeCount {
        /// Probabilities given.
        values: usize,
        /// Nodes of the tree, the root included.
        nodes: usize,
    },
}

/// A draft length and its gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftLength {
    /// Drafts per step, `γ`; 0 means that drafting does not pay.
    pub draft_tokens: usize,
    /// Speed relative to plain decoding.
    pub wall_time_gain: f64,
}

/// Expected tokens per step, the bonus token included:
/// `E = 1 + α + … + α^γ = (1 - α^{γ+1}) / (1 - α)`, which is `γ + 1` at `α = 1`.
///
/// # Errors
/// If `alpha` lies outside `[0, 1]`.
pub fn expected_tokens(alpha: f64, draft_tokens: usize) -> Result<f64, StatsError> {
    if !(0.0..=1.0).contains(&alpha) {
        return Err(StatsError::Acceptance(alpha));
    }
    let terms = draft_tokens as f64 + 1.0;
    let rejection = 1.0 - alpha;
    if rejection == 0.0 {
        return Ok(terms);
    }
    // 1 - α^{γ+1} without the cancellation that the plain form suffers near α = 1.
    Ok(-(terms * (-rejection).ln_1p()).exp_m1() / rejection)
}

/// Speed relative to plain decoding: `E / (γ·c + 1) = (1 - α^{γ+1}) / ((1 - α)(γ·c + 1))`, where `draft_time` is `c`.
///
/// # Errors
/// If `alpha` lies outside `[0, 1]` or `draft_time` is negative or not finite.
pub fn wall_time_gain(alpha: f64, draft_tokens: usize, draft_time: f64) -> Result<f64, StatsError> {
    check_cost_ratio(draft_time)?;
    Ok(expected_tokens(alpha, draft_tokens)? / (draft_tokens as f64 * draft_time + 1.0))
}

/// Arithmetic operations per token relative to plain decoding:
/// `(γ·ĉ + γ + 1) / E = (1 - α)(γ·ĉ + γ + 1) / (1 - α^{γ+1})`, where `draft_operations` is `ĉ`.
///
/// # Errors
/// If `alpha` lies outside `[0, 1]` or `draft_operations` is negative or not finite.
pub fn operations_ratio(alpha: f64, draft_tokens: usize, draft_operations: f64) -> Result<f64, StatsError> {
    check_cost_ratio(draft_operations)?;
    let drafts = draft_tokens as f64;
    Ok((drafts * draft_operations + drafts + 1.0) / expected_tokens(alpha, draft_tokens)?)
}

/// The draft length of at most `max_draft_tokens` with the greatest [`wall_time_gain`]; the shortest one among equals.
///
/// The gain is a concave function of `γ` over a linear one, so it rises to one peak and falls: the search starts at 0,
/// stops at the first length that gains nothing, and ends at the bound where drafts are so cheap or so good that longer
/// is always better (`c = 0`, or `α = 1` with `c < 1`).
///
/// # Errors
/// If `alpha` lies outside `[0, 1]` or `draft_time` is negative or not finite.
pub fn best_draft_length(alpha: f64, draft_time: f64, max_draft_tokens: usize) -> Result<DraftLength, StatsError> {
    let mut best = DraftLength { draft_tokens: 0, wall_time_gain: wall_time_gain(alpha, 0, draft_time)? };
    for draft_tokens in 1..=max_draft_tokens {
        let wall_time_gain = wall_time_gain(alpha, draft_tokens, draft_time)?;
        if wall_time_gain <= best.wall_time_gain {
            break;
        }
        best = DraftLength { draft_tokens, wall_time_gain };
    }
    Ok(best)
}

/// Expected tokens per step of a tree, the bonus token included: `Σ over nodes Π along the path of acceptance`, the
/// root counting 1. `acceptance[i]` is the probability that node `i` is accepted given that its parent is; siblings
/// exclude each other. The root's entry is not read, and probes count 0.
///
/// # Shapes
/// `acceptance`: `[nodes]`.
///
/// # Errors
/// If there is not one probability per node or one lies outside `[0, 1]`.
pub fn expected_tree_tokens(tree: &TokenTree, acceptance: &[f64]) -> Result<f64, StatsError> {
    if acceptance.len() != tree.len() {
        return Err(StatsError::NodeCount { values: acceptance.len(), nodes: tree.len() });
    }
    let mut reached = vec![1.0; tree.len()];
    for node in 1..tree.len() {
        if !(0.0..=1.0).contains(&acceptance[node]) {
            return Err(StatsError::NodeAcceptance { node, value: acceptance[node] });
        }
        reached[node] = if tree.is_probe(node) { 0.0 } else { reached[tree.parents()[node]] * acceptance[node] };
    }
    Ok(reached.iter().sum())
}

fn check_cost_ratio(ratio: f64) -> Result<(), StatsError> {
    if ratio.is_finite() && ratio >= 0.0 { Ok(()) } else { Err(StatsError::CostRatio(ratio)) }
}
