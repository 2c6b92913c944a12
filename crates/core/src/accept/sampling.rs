//! Speculative sampling, on chains and on trees.

use super::coupled::plain;
use super::rounds::{Proposals, first_accepted};
use super::slack::Slack;
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{Token, dist::Transform, tree::TokenTree};

/// Speculative sampling (Leviathan et al. 2023; Chen et al. 2023) in its multi-round form for trees (SpecInfer,
/// Sequoia, EAGLE).
///
/// At a node with target distribution `p` its [entries](DraftRows) are tried in turn. With `q` the distribution of the
/// entry's source, it is accepted with `min(1, p(c)/q(c))`. After a rejection `p <- norm(max(0, p-q))` and, for samples
/// without replacement, `q[c] <- 0; q <- norm(q)`. For a list `q` is a point mass: accept with `p(c)`, else
/// `p[c] <- 0; p <- norm(p)`. The bonus is drawn from the last `p`.
///
/// Lossless at any temperature: the emitted text has exactly the target's transformed distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Applied to target and draft rows before they are compared.
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
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        descend(|node| {
            let mut p = self.transform.apply(target.row(node)?);
            let proposals = Proposals::at(draft, node, &self.transform);
            Ok(match first_accepted(tree, proposals, &mut p, Slack::NONE, random) {
                Some(child) => Move::Follow(child),
                None => Move::Stop(random.pick(&p) as Token),
            })
        })
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}
