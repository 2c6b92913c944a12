//! SpecTr's k-SEQ: k independent drafts for one position, tried in turn against one fixed ratio.

use super::coupled::plain;
use super::rounds::{Proposals, first_accepted};
use super::slack::Slack;
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, SamplingScheme, TargetError, TargetRows, Verdict};
use crate::{
    PooledVec, Token,
    dist::{Transform, mass, normalise},
    tree::{Entry, TokenTree},
};

/// k-SEQ (Sun et al. 2023, SpecTr): the k entries of a node, drawn independently from `q`, are tried in turn, each
/// accepted with `min(1, p/(ρq))`. With `β = Σ min(q, p/ρ)` and `p_acc = 1-(1-β)^k`, if all fail the bonus is drawn
/// from `(p - min(q, p/ρ)·p_acc/β)/(1-p_acc)`.
///
/// Lossless for every `ρ >= ρ*`; [`smallest_rho`] gives ρ*, with which the most is accepted. Nodes whose entries were
/// not drawn independently from one valid row fall back to the rounds of [`Sampling`](super::Sampling). Entries of
/// several sources do so too, as one ρ holds for one `q` only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KSeq {
    /// Applied to target and draft rows before they are compared.
    pub transform: Transform,
}

impl AcceptanceRule for KSeq {
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
            let entries: PooledVec<Entry> = draft.entries_at(tree, node).collect();
            let accepted = match self.independent(tree, &entries, draft, node) {
                Some(q) => try_all(tree, &entries, &q, &mut p, random),
                None => {
                    let proposals = Proposals::at(draft, node, &self.transform);
                    first_accepted(tree, proposals, &mut p, Slack::NONE, random)
                }
            };
            Ok(accepted.map_or_else(|| Move::Stop(random.pick(&p) as Token), Move::Follow))
        })
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}

impl KSeq {
    /// The transformed draft distribution of `node` if all its entries can be independent samples of it.
    fn independent(
        &self,
        tree: &TokenTree,
        entries: &[Entry],
        draft: DraftRows<'_>,
        node: usize,
    ) -> Option<PooledVec<f64>> {
        let source = entries.first()?.source;
        let is_one = entries.iter().all(|entry| entry.source == source);
        if !is_one || draft.scheme(source) != SamplingScheme::Independent {
            return None;
        }
        let q = self.transform.apply(draft.valid_row(source, node)?);
        entries.iter().all(|entry| mass(&q, tree.token(entry.child)) > 0.0).then_some(q)
    }
}

/// Tries all `entries`; if all fail, `target` becomes the distribution of the bonus.
fn try_all(
    tree: &TokenTree,
    entries: &[Entry],
    draft: &[f64],
    target: &mut [f64],
    random: &mut dyn RandomSource,
) -> Option<usize> {
    let rho = smallest_rho(target, draft, entries.len());
    for &Entry { child, .. } in entries {
        let token = tree.token(child);
        if random.flip(mass(target, token) / (rho * mass(draft, token))) {
            return Some(child);
        }
    }
    leave_residual(target, draft, entries.len(), rho);
    None
}

/// `β(ρ) = Σ min(q, p/ρ)`, the probability that one draft is accepted.
fn acceptance(target: &[f64], draft: &[f64], rho: f64) -> f64 {
    target.iter().zip(draft).map(|(&p, &q)| q.min(p / rho)).sum::<f64>().clamp(0.0, 1.0)
}

/// `p_acc/β = (1-(1-β)^k)/β`, by which k tries raise the mass that one try accepts; its limit k at β = 0.
fn gain(beta: f64, tries: usize) -> f64 {
    // Written so that a tiny β does not cancel.
    if beta > 0.0 { -(tries as f64 * (-beta).ln_1p()).exp_m1() / beta } else { tries as f64 }
}

/// `p <- norm(p - min(q, p/ρ)·p_acc/β)`. Where rounding leaves nothing, all was accepted but for that rounding, and p
/// stays as it was.
fn leave_residual(target: &mut [f64], draft: &[f64], tries: usize, rho: f64) {
    let gain = gain(acceptance(target, draft, rho), tries);
    let draft = draft.iter().copied().chain(std::iter::repeat(0.0));
    let mut left: PooledVec<f64> =
        target.iter().zip(draft).map(|(&p, q)| (p - q.min(p / rho) * gain).max(0.0)).collect();
    if normalise(&mut left) {
        target.copy_from_slice(&left);
    }
}

/// Rounding of sums over a vocabulary.
const ROUNDING: f64 = 1e-13;

/// `ρ*`: the smallest `ρ` in `[1, k]` for which the residual of k-SEQ is nowhere negative, to within rounding.
///
/// The residual at x is non-negative iff `min(q/p, 1/ρ)·p_acc/β <= 1` there, so the token with the greatest `q/p`
/// decides. The left side does not grow with ρ (SpecTr, section 5), so bisection finds where it reaches 1; at `ρ = k`
/// it always holds, because `p_acc <= kβ`.
///
/// # Shapes
/// `target [vocab]`, `draft` of any length; `tries` = k, the number of entries.
pub fn smallest_rho(target: &[f64], draft: &[f64], tries: usize) -> f64 {
    let ratios = target.iter().zip(draft).filter(|(p, _)| **p > 0.0).map(|(p, q)| q / p);
    let greatest = ratios.fold(0.0, f64::max);
    let side = |rho: f64| greatest.min(1.0 / rho) * gain(acceptance(target, draft, rho), tries);
    // Where p = q, the left side is 1 from ρ = 1 on, and nearly flat: without a margin, rounding would choose a ρ of up
    // to 1.1, and a draft that is always right would be rejected now and then.
    if tries <= 1 || side(1.0) <= 1.0 + ROUNDING {
        return 1.0;
    }
    let (mut low, mut high) = (1.0, tries as f64);
    while high - low > f64::EPSILON * high {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if side(middle) <= 1.0 { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests;
