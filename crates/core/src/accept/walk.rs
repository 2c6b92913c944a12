//! The two ways to walk a verified tree: node by node, and to the end of the longest accepted path.

use super::{TargetError, Verdict};
use crate::{PooledVec, Token, tree::TokenTree};

/// A rule's move at a node it has reached.
pub(super) enum Move {
    /// Accept this child and go there.
    Follow(usize),
    /// End the path here and emit this bonus token.
    Stop(Token),
}

/// Walks down from the root, asking `decide` at each node.
pub(super) fn descend(mut decide: impl FnMut(usize) -> Result<Move, TargetError>) -> Result<Verdict, TargetError> {
    let mut path = PooledVec::of(0, 1);
    let mut node = 0;
    loop {
        match decide(node)? {
            Move::Follow(child) => {
                path.push(child);
                node = child;
            }
            Move::Stop(bonus) => return Ok(Verdict { path, bonus }),
        }
    }
}

/// The index of the longest candidate, given as (accepted drafts, summed log-probability of those drafts). The greater
/// sum wins among the longest, the first of the candidates among equals (Medusa's reference implementation, where all
/// sums are 0 under greedy acceptance). 0 if there is no candidate.
pub fn longest(candidates: impl IntoIterator<Item = (usize, f64)>) -> usize {
    let mut best = (0, 0, f64::NEG_INFINITY);
    for (index, (accepted, score)) in candidates.into_iter().enumerate() {
        if index == 0 || accepted > best.1 || (accepted == best.1 && score > best.2) {
            best = (index, accepted, score);
        }
    }
    best.0
}

/// The path of the [`longest`] chain of accepted nodes.
///
/// `judge_at(node)` is asked once per accepted node that has children, and returns the judge of those children: the
/// log-probability that accepting a token adds to the path's score, or `None` to reject it.
pub(super) fn longest_accepted<J: Fn(Token) -> Option<f64>>(
    tree: &TokenTree,
    mut judge_at: impl FnMut(usize) -> Result<J, TargetError>,
) -> Result<PooledVec<usize>, TargetError> {
    // Indexed by node; `None` for a rejected node and for everything below one.
    let mut scores = PooledVec::of(None, tree.len());
    scores[0] = Some(0.0);
    for node in 0..tree.len() {
        let Some(score) = scores[node] else { continue };
        let mut children = tree.children(node).peekable();
        if children.peek().is_none() {
            continue;
        }
        let judge = judge_at(node)?;
        for child in children {
            scores[child] = judge(tree.token(child)).map(|gain| score + gain);
        }
    }
    let nodes: PooledVec<usize> = (0..tree.len()).filter(|&node| scores[node].is_some()).collect();
    let candidates = nodes.iter().filter_map(|&node| Some((tree.depths()[node], scores[node]?)));
    Ok(tree.path(nodes[longest(candidates)]))
}

#[cfg(test)]
mod tests;
