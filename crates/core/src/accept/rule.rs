//! What an acceptance rule is. Greedy acceptance is implemented here, since every rule may say that it is greedy.

use super::greedy::{Greedy, along};
use super::{DraftRows, RandomSource, Rows, Verdict};
use crate::{Token, dist::Row, tree::TokenTree};

/// A rule that turns a verified tree into emitted tokens.
pub trait AcceptanceRule {
    /// Whether the emitted text has exactly the target's law (for greedy: is the target's greedy text).
    fn is_lossless(&self) -> bool;
    /// Picks a root-to-node path and a bonus token. Only the rows of nodes that the rule visits are read.
    ///
    /// # Shapes
    /// `target` has one row per node of `tree`: the target's scores after that node's token. `draft`, where it has
    /// rows, has one per node as well.
    ///
    /// # Panics
    /// If `target` has no row for a visited node. Whatever `draft` holds causes no panic.
    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: Rows<'_>,
        random: &mut dyn RandomSource,
    ) -> Verdict;

    /// The rule if it is [`Greedy`], which asks for nothing but each node's likeliest token. Where those are known
    /// without all logits [`Greedy::accept_argmax`] is called instead of [`Self::accept`] and [`Self::next`]; a rule
    /// that has to see every step says `None`.
    fn as_greedy(&self) -> Option<&Greedy> {
        None
    }

    /// The token after `last` when nothing was drafted: what [`Self::accept`] says of a lone root with the target's
    /// `row`.
    fn next(&self, last: Token, row: Row<'_>, random: &mut dyn RandomSource) -> Token {
        let rows = match row {
            Row::Logits(data) => Rows::Logits { data, vocab: data.len() },
            Row::Probabilities(data) => Rows::Probabilities { data, vocab: data.len() },
        };
        self.accept(&TokenTree::root(last), DraftRows::NONE, rows, random).bonus
    }
}

impl AcceptanceRule for Greedy {
    fn is_lossless(&self) -> bool {
        true
    }

    fn accept(&self, tree: &TokenTree, _: DraftRows<'_>, target: Rows<'_>, _: &mut dyn RandomSource) -> Verdict {
        along(tree, |node| target.verified(node).argmax() as Token)
    }

    fn as_greedy(&self) -> Option<&Greedy> {
        Some(self)
    }

    fn next(&self, _: Token, row: Row<'_>, _: &mut dyn RandomSource) -> Token {
        row.argmax() as Token
    }
}
