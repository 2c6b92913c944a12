//! Speculative cascades: speculative sampling towards a mixture of drafter and target.

use super::coupled::plain;
use super::rounds::{Proposals, first_accepted};
use super::slack::Slack;
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    PooledVec, Token,
    dist::{Row, Transform, total_variation},
    tree::TokenTree,
};

/// When a cascade defers to the target (Narasimhan et al. 2024, sections 3 to 5). The first three decide for a whole
/// row, the token rules per token `v`. `r(v) = 1` means defer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// `max q < 1 - α`
    Chow,
    /// `max q < max p - α`
    Diff,
    /// `max q < max p - α·TV(p, q)`
    Opt,
    /// `q(v) < max p - α`
    TokenV1,
    /// `p(v) < max p - α`
    TokenV2,
    /// `p(v) < (1 - α)·max p`
    TokenV3,
}

impl Deferral {
    /// The rule `r(v)` for every token.
    ///
    /// `target` and `draft` are the **unscaled** `p` and `q`; only `distance`, which [`Deferral::Opt`] needs, is
    /// the total variation of the transformed `p` and `q`.
    ///
    /// # Shapes
    /// `target [vocab]`, `draft` of any length, to `[vocab]`.
    pub fn defers(self, alpha: f64, target: &[f64], draft: &[f64], distance: f64) -> PooledVec<bool> {
        let greatest = |p: &[f64]| p.iter().copied().fold(0.0, f64::max);
        let (p_max, q_max) = (greatest(target), greatest(draft));
        let everywhere = |defers: bool| PooledVec::of(defers, target.len());
        match self {
            Self::Chow => everywhere(q_max < 1.0 - alpha),
            Self::Diff => everywhere(q_max < p_max - alpha),
            Self::Opt => everywhere(q_max < p_max - alpha * distance),
            Self::TokenV1 => {
                let q = draft.iter().copied().chain(std::iter::repeat(0.0));
                q.take(target.len()).map(|q| q < p_max - alpha).collect()
            }
            Self::TokenV2 => target.iter().map(|&p| p < p_max - alpha).collect(),
            Self::TokenV3 => target.iter().map(|&p| p < (1.0 - alpha) * p_max).collect(),
        }
    }

    /// The distribution aimed at, `π(v) = q(v)·(1-r(v)) + p(v)·η` with `η = Σ_v r(v)·q(v)`, of the **transformed**
    /// `target` and `draft`. Where `r` is the same for all tokens this is `q` or `p`. Draft mass beyond the target's
    /// vocabulary is deferred.
    ///
    /// # Shapes
    /// `defers [vocab]`, `target [vocab]`, `draft` of any length, to `[vocab]`.
    pub fn mix(defers: &[bool], target: &[f64], draft: &[f64]) -> PooledVec<f64> {
        let rule = || defers.iter().copied().chain(std::iter::repeat(true));
        let deferred: f64 = draft.iter().zip(rule()).filter(|(_, defers)| *defers).map(|(q, _)| q).sum();
        let q = draft.iter().copied().chain(std::iter::repeat(0.0));
        let kept = q.zip(rule()).map(|(q, defers)| if defers { 0.0 } else { q });
        target.iter().zip(kept).map(|(p, kept)| kept + p * deferred).collect()
    }
}

/// Speculative cascades (Narasimhan et al. 2024): speculative sampling with `π = T(q, p)` in place of `p`: accept with
/// `min(1, π/q)`, residual `norm(max(0, π-q))`; a list's child `c` is accepted with `π(c)`, `π` built from the full
/// `q`. Several entries are tried in turn like those of [`Sampling`](super::Sampling).
///
/// `π` mixes the target with one drafter. Where a node has entries of several sources, that is the source of the first
/// entry with a valid row; entries of other sources are accepted towards the same `π` with their own `q`.
///
/// The deferral rule sees the unscaled distributions; the transform applies to those that are mixed. At temperature 0
/// `token-v3` is [`LossyGreedy`](super::LossyGreedy), and `opt` emits what `diff` emits.
///
/// Not lossless: the output distribution is `π` wherever something was drafted. Where nothing was (the end of a path),
/// or where the drafter has no valid row, there is nothing to mix and the target's own distribution is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cascade {
    /// When to defer to the target.
    pub deferral: Deferral,
    /// α: how reluctantly to defer.
    pub alpha: f64,
    /// Applied to target and draft rows before they are mixed.
    pub transform: Transform,
}

impl Cascade {
    /// `π` for one pair of rows, and the transformed draft distribution.
    fn aim(&self, target: Row<'_>, draft: Row<'_>) -> (PooledVec<f64>, PooledVec<f64>) {
        let (p, q) = (self.transform.apply(target), self.transform.apply(draft));
        let distance = total_variation(&p, &q);
        let defers = if self.transform == Transform::IDENTITY {
            self.deferral.defers(self.alpha, &p, &q, distance)
        } else {
            let (p, q) = (Transform::IDENTITY.apply(target), Transform::IDENTITY.apply(draft));
            self.deferral.defers(self.alpha, &p, &q, distance)
        };
        (Deferral::mix(&defers, &p, &q), q)
    }
}

impl AcceptanceRule for Cascade {
    fn is_lossless(&self) -> bool {
        false
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        descend(|node| {
            let row = target.row(node)?;
            let proposals = Proposals::at(draft, node, &self.transform);
            let mixed = draft.entries_at(tree, node).map(|entry| entry.source);
            let mixed = mixed.filter_map(|source| Some((source, draft.valid_row(source, node)?))).next();
            let (mut aim, proposals) = match mixed {
                Some((source, drafted)) => {
                    let (aim, q) = self.aim(row, drafted);
                    (aim, proposals.with(source, q))
                }
                None => (self.transform.apply(row), proposals),
            };
            Ok(match first_accepted(tree, proposals, &mut aim, Slack::NONE, random) {
                Some(child) => Move::Follow(child),
                None => Move::Stop(random.pick(&aim) as Token),
            })
        })
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}
