//! One node's children, tried in turn: the multi-round rejection that speculative sampling, its lossy form and the
//! cascades share.

use super::slack::Slack;
use super::{DraftRows, RandomSource, SamplingScheme};
use crate::{
    PooledVec, Token,
    dist::{Transform, mass, normalise, residual},
    tree::TokenTree,
};

/// What a node's children were drawn from.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    law: SamplingScheme,
    /// The transformed draft law, all zero where the children are a list.
    draft: PooledVec<f64>,
}

impl Proposal {
    /// The children of `node`. A row that is missing or not sound makes them a list: conditionally on any tokens at
    /// all, the rejection of a list leaves the output law exactly as it should be.
    pub fn at(tree: &TokenTree, node: usize, draft: DraftRows<'_>, transform: &Transform) -> Self {
        let is_drawn = draft.law != SamplingScheme::Deterministic && tree.children(node).next().is_some();
        let row = if is_drawn { draft.sound(node) } else { None };
        Self { law: draft.law, draft: row.map_or_else(PooledVec::new, |row| transform.apply(row)) }
    }

    /// Children taken by `law` from the transformed law `draft`.
    pub fn from_law(law: SamplingScheme, draft: PooledVec<f64>) -> Self {
        Self { law, draft: if law == SamplingScheme::Deterministic { PooledVec::new() } else { draft } }
    }

    /// Forgets `token` after its rejection if it cannot be drawn again: `q[c] <- 0; q <- norm(q)`.
    fn reject(&mut self, token: Token) {
        if self.law == SamplingScheme::WithoutReplacement {
            self.draft[token as usize] = 0.0;
            // Once nothing is left all masses are 0, and whatever follows counts as a list.
            normalise(&mut self.draft);
        }
    }
}

/// Tries the children of `node` in turn and returns the first that is accepted. `target` is the law aimed at; after a
/// rejection it becomes the law of what is still to be emitted, so that when every child is rejected it is the law of
/// the bonus (SpecInfer's multi-round sampling; without replacement: Sequoia; of a list: EAGLE-2).
///
/// A child whose token the draft law gives no mass cannot have been drawn from that law, so it is handled like an entry
/// of a list (its q is a point mass). Whatever such a token is, the output law given it is exact.
pub(super) fn first_accepted(
    tree: &TokenTree,
    node: usize,
    mut proposal: Proposal,
    target: &mut PooledVec<f64>,
    slack: Slack,
    random: &mut dyn RandomSource,
) -> Option<usize> {
    let mut listed = PooledVec::new();
    for child in tree.children(node) {
        let token = tree.token(child);
        let drawn_with = mass(&proposal.draft, token);
        let is_listed = drawn_with <= 0.0;
        if is_listed && listed.contains(&token) {
            continue; // the list's earlier entry has already been rejected
        }
        let q = if is_listed { 1.0 } else { drawn_with };
        if random.flip(mass(target, token) / ((1.0 - slack.alpha) * q)) {
            return Some(child);
        }
        if is_listed {
            listed.push(token);
            strike(target, token);
        } else {
            leave_residual(target, &proposal.draft, slack);
            proposal.reject(token);
        }
    }
    None
}

/// `p[c] <- 0; p <- norm(p)`: the residual after rejecting a point mass. (A rejected token has `p(c) < 1-α <= β`, so
/// with slack it is the same.)
fn strike(target: &mut [f64], token: Token) {
    if mass(target, token) == 0.0 {
        return; // nothing to strike, and a vocabulary not to renormalise
    }
    let rejected = std::mem::take(&mut target[token as usize]);
    // A rejected token had less than all of the mass; if rounding says otherwise, the law stays as it was.
    if !normalise(target) {
        target[token as usize] = rejected;
    }
}

/// `p <- norm(max(0, p/β - q))`. With q the same law as p up to rounding nothing is left; that branch has the
/// probability of a rounding error, and p stays as it was.
fn leave_residual(target: &mut PooledVec<f64>, draft: &[f64], slack: Slack) {
    let beta = slack.beta.value(target, draft, slack.alpha);
    let left = if beta == 1.0 {
        residual(target, draft)
    } else {
        let scaled: PooledVec<f64> = target.iter().map(|p| p / beta).collect();
        residual(&scaled, draft)
    };
    if let Some(left) = left {
        *target = left;
    }
}
