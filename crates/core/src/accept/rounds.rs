//! One node's entries, tried in turn: the multi-round rejection that speculative sampling, its lossy form and the
//! cascades share.

use super::slack::Slack;
use super::{DraftRows, RandomSource, SamplingScheme};
use crate::{
    PooledVec, Token,
    dist::{Transform, mass, normalise, residual},
    tree::TokenTree,
};

/// The draft distributions `q_s` at one node, by source. Each is made when the first entry of its source is tried.
#[derive(Clone, Debug)]
pub(super) struct Proposals<'a> {
    draft: DraftRows<'a>,
    transform: &'a Transform,
    node: usize,
    /// The distributions so far, one after the other.
    data: PooledVec<f64>,
    /// Where each source's distribution starts and ends; `None` until it is made, empty where its entries are a list.
    spans: PooledVec<Option<(usize, usize)>>,
}

impl<'a> Proposals<'a> {
    /// The sources at `node`. Where a row is missing or not valid the source's entries are a list: conditionally on any
    /// tokens at all, the rejection of a list leaves the output distribution exactly as it should be.
    pub fn at(draft: DraftRows<'a>, node: usize, transform: &'a Transform) -> Self {
        Self { draft, transform, node, data: PooledVec::new(), spans: PooledVec::of(None, draft.sources().len()) }
    }

    /// Variant for a transformed distribution of `source` that is known to be `q`.
    pub fn with(mut self, source: usize, q: PooledVec<f64>) -> Self {
        let is_list = self.draft.scheme(source) == SamplingScheme::Deterministic;
        self.set(source, if is_list { PooledVec::new() } else { q });
        self
    }

    /// Makes the distribution of `source`, unless it was made before.
    fn make(&mut self, source: usize) {
        if self.spans.get(source) != Some(&None) {
            return;
        }
        let is_list = self.draft.scheme(source) == SamplingScheme::Deterministic;
        let row = if is_list { None } else { self.draft.valid_row(source, self.node) };
        self.set(source, row.map_or_else(PooledVec::new, |row| self.transform.apply(row)));
    }

    fn set(&mut self, source: usize, q: PooledVec<f64>) {
        let start = self.data.len();
        if start == 0 {
            self.data = q;
        } else {
            self.data.extend_from_slice(&q);
        }
        let end = self.data.len();
        if let Some(span) = self.spans.get_mut(source) {
            *span = Some((start, end));
        }
    }

    /// `q_s(token)`; `None` if the token cannot have been drawn from it, so that its entry is of a list.
    pub fn drawn_with(&mut self, source: usize, token: Token) -> Option<f64> {
        self.make(source);
        Some(mass(self.q(source), token)).filter(|&q| q > 0.0)
    }

    /// `q_s`, empty for a list.
    pub fn q(&self, source: usize) -> &[f64] {
        let (start, end) = self.spans.get(source).copied().flatten().unwrap_or_default();
        &self.data[start..end]
    }

    /// Forgets `token` after its rejection if its source cannot draw it again: `q[c] <- 0; q <- norm(q)`.
    pub fn reject(&mut self, source: usize, token: Token) {
        if self.draft.scheme(source) == SamplingScheme::WithoutReplacement {
            let (start, end) = self.spans.get(source).copied().flatten().unwrap_or_default();
            let q = &mut self.data[start..end];
            q[token as usize] = 0.0;
            // Once nothing is left all masses are 0, and whatever follows counts as a list.
            normalise(q);
        }
    }
}

/// Tries the entries of a node in turn and returns the child of the first that is accepted. `target` is the
/// distribution aimed at. After a rejection it becomes that of the token still to be emitted, so that when every entry
/// is rejected it is that of the bonus (SpecInfer's multi-round sampling; without replacement: Sequoia; of a list:
/// EAGLE-2).
///
/// An entry whose token its source gives no mass cannot have been drawn from that source, so it is handled like an
/// entry of a list (its q is a point mass). Whatever such a token is, the output distribution given it is exact.
pub(super) fn first_accepted(
    tree: &TokenTree,
    mut proposals: Proposals<'_>,
    target: &mut PooledVec<f64>,
    slack: Slack,
    random: &mut dyn RandomSource,
) -> Option<usize> {
    let mut listed = PooledVec::new();
    for entry in proposals.draft.entries_at(tree, proposals.node) {
        let token = tree.token(entry.child);
        let drawn_with = proposals.drawn_with(entry.source, token);
        let is_listed = drawn_with.is_none();
        if is_listed && listed.contains(&token) {
            continue; // the list's earlier entry has already been rejected
        }
        if random.flip(mass(target, token) / ((1.0 - slack.alpha) * drawn_with.unwrap_or(1.0))) {
            return Some(entry.child);
        }
        if is_listed {
            listed.push(token);
            strike(target, token);
        } else {
            leave_residual(target, proposals.q(entry.source), slack);
            proposals.reject(entry.source, token);
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
    // A rejected token had less than all of the mass; if rounding says otherwise, the distribution stays as it was.
    if !normalise(target) {
        target[token as usize] = rejected;
    }
}

/// `p <- norm(max(0, p/β - q))`. With q equal to p up to rounding nothing is left; that branch has the probability of a
/// rounding error, and p stays as it was.
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
