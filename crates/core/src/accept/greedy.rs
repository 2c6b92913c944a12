//! Greedy acceptance: the target's argmax and nothing else.

use super::Verdict;
use super::walk::longest_accepted;
use crate::{Token, tree::TokenTree};

/// Follows the child whose token is the target's argmax; the bonus is the argmax at the path's end. The lowest id wins
/// a tie, on raw rows, whatever the temperature.
///
/// Lossless for greedy decoding: the emitted text is the target's greedy text, token for token, because every accepted
/// draft and the bonus are argmaxes given the text before them (Stern et al. 2018; Leviathan et al. 2023 at T = 0).
/// Draft rows and chance are not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Greedy;

impl Greedy {
    /// [`AcceptanceRule::accept`](super::AcceptanceRule::accept) for a target of which only each node's top-1 token is
    /// known.
    ///
    /// # Shapes
    /// `top_tokens` has one token per node of `tree`.
    pub fn accept_argmax(&self, tree: &TokenTree, top_tokens: &[Token]) -> Verdict {
        along(tree, |node| top_tokens[node])
    }
}

/// The path along the target's top-1 tokens.
pub(super) fn along(tree: &TokenTree, best: impl Fn(usize) -> Token) -> Verdict {
    // Siblings may repeat a token; the longest of the equal paths is then the one to take.
    let path = longest_accepted(tree, |node| {
        let argmax = best(node);
        move |token| (token == argmax).then_some(0.0)
    });
    let bonus = best(path[path.len() - 1]);
    Verdict { path, bonus }
}
