//! Speculative sampling, on chains and on trees.

use super::rounds::{Proposal, first_accepted};
use super::slack::Slack;
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, Rows, Verdict};
use crate::{Token, dist::Transform, tree::TokenTree};

/// Speculative sampling (Leviathan et al. 2023; Chen et al. 2023) in its multi-round form for trees (SpecInfer,
/// Sequoia, EAGLE).
///
/// At a node with target law `p` and draft law `q` its children are tried in turn, each accepted with
/// `min(1, p(c)/q(c))`; after a rejection `p <- norm(max(0, p-q))` and, for draws without replacement,
/// `q[c] <- 0; q <- norm(q)`. For a list `q` is a point mass: accept with `p(c)`, else `p[c] <- 0; p <- norm(p)`. The
/// bonus is drawn from the last `p`.
///
/// Lossless at any temperature: the emitted text has exactly the target's transformed law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What target and draft rows go through before they are compared.
    pub transform: Transform,
}

impl AcceptanceRule for Sampling {
    fn is_lossless(&self) -> bool {
        true
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: Rows<'_>,
        random: &mut dyn RandomSource,
    ) -> Verdict {
        descend(|node| {
            let mut law = self.transform.apply(target.verified(node));
            let proposal = Proposal::at(tree, node, draft, &self.transform);
            match first_accepted(tree, node, proposal, &mut law, Slack::NONE, random) {
                Some(child) => Move::Follow(child),
                None => Move::Stop(random.pick(&law) as Token),
            }
        })
    }
}
