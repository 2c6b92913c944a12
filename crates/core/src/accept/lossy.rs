//! Speculative sampling with slack: a stated departure from the target's distribution, for more acceptance.

use super::coupled::plain;
use super::rounds::{Proposals, first_accepted};
use super::slack::{Beta, Slack};
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    Token,
    dist::{Transform, mass},
    tree::TokenTree,
};

/// Lossy speculative sampling (Tran-Thien 2023; Narasimhan et al. 2024, section 2): accept with
/// `min(1, p(x)/((1-α)q(x)))`, else draw from `norm(max(0, p/β - q))`. Both distributions are transformed first.
///
/// For one draft the output is [`lossy_distribution`](super::lossy_distribution). Several entries of a node are tried
/// in turn like those of [`Sampling`](super::Sampling), each round with the same α and β against the residual of the
/// rounds before it; a list's entry `c` is accepted with `min(1, p(c)/(1-α))`. Where β leaves no residual, the bonus
/// is drawn from `p`.
///
/// Lossless only at `α = 0, β = 1`. At temperature 0 this form degenerates to greedy acceptance; [`LossyGreedy`] is
/// the variant meant there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lossy {
    /// α in `[0, 1)`: the slack of acceptance.
    pub alpha: f64,
    /// β: the weight of the residual.
    pub beta: Beta,
    /// Applied to target and draft rows before they are compared.
    pub transform: Transform,
}

impl AcceptanceRule for Lossy {
    fn is_lossless(&self) -> bool {
        self.alpha == 0.0 && self.beta == Beta::Fixed(1.0)
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        let slack = Slack { alpha: self.alpha, beta: self.beta };
        descend(|node| {
            let mut p = self.transform.apply(target.row(node)?);
            let proposals = Proposals::at(draft, node, &self.transform);
            Ok(match first_accepted(tree, proposals, &mut p, slack, random) {
                Some(child) => Move::Follow(child),
                None => Move::Stop(random.pick(&p) as Token),
            })
        })
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}

/// Leviathan et al.'s lossy greedy decoding, the form of [`Lossy`] for temperature 0: a draft `v` is accepted iff
/// `p(v) >= (1-α)·max p`, with `p` at temperature 1; the bonus is the argmax.
///
/// On a tree the test is put to a node's first entry, the drafter's own choice. Where that fails, the target's argmax
/// is emitted, by way of the entry that drafted it if there is one. That makes it the same rule as the cascade
/// `token-v3` at temperature 0 on trees of top-k children too, not only on chains.
///
/// Not lossless (even at α = 0 an exact tie may go to the drafter).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossyGreedy {
    /// α in `[0, 1)`: the slack of acceptance.
    pub alpha: f64,
}

impl AcceptanceRule for LossyGreedy {
    fn is_lossless(&self) -> bool {
        false
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        _: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        descend(|node| {
            let row = target.row(node)?;
            let best = row.argmax() as Token;
            let Some(first) = draft.entries_at(tree, node).next() else { return Ok(Move::Stop(best)) };
            let p = Transform::IDENTITY.apply(row);
            if mass(&p, tree.token(first.child)) >= (1.0 - self.alpha) * mass(&p, best) {
                return Ok(Move::Follow(first.child));
            }
            let guess = draft.entries_at(tree, node).find(|entry| tree.token(entry.child) == best);
            Ok(guess.map_or(Move::Stop(best), |entry| Move::Follow(entry.child)))
        })
    }
}
