//! Speculative sampling with slack: a stated departure from the target's law, for more acceptance.

use super::rounds::{Proposal, first_accepted};
use super::slack::{Beta, Slack};
use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, Rows, Verdict};
use crate::{
    PooledVec, Token,
    dist::{Transform, mass, overlap, residual},
    tree::TokenTree,
};

/// Lossy speculative sampling (Tran-Thien 2023; Narasimhan et al. 2024, section 2): accept with
/// `min(1, p(x)/((1-α)q(x)))`, else draw from `norm(max(0, p/β - q))`. Both laws are transformed first.
///
/// For one draft the output law is [`lossy_law`]. Several children of a node are tried in turn like those of
/// [`Sampling`](super::Sampling), each round with the same α and β against what the rounds before it left; a list's
/// entry `c` is accepted with `min(1, p(c)/(1-α))`. Where β leaves no residual, the bonus is drawn from `p`.
///
/// Lossless only at `α = 0, β = 1`. At temperature 0 this form degenerates to greedy acceptance; [`LossyGreedy`] is
/// the variant meant there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lossy {
    /// α in `[0, 1)`: the slack of acceptance.
    pub alpha: f64,
    /// β: the weight of the residual.
    pub beta: Beta,
    /// What target and draft rows go through before they are compared.
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
        target: Rows<'_>,
        random: &mut dyn RandomSource,
    ) -> Verdict {
        let slack = Slack { alpha: self.alpha, beta: self.beta };
        descend(|node| {
            let mut law = self.transform.apply(target.verified(node));
            let proposal = Proposal::at(tree, node, draft, &self.transform);
            match first_accepted(tree, node, proposal, &mut law, slack, random) {
                Some(child) => Move::Follow(child),
                None => Move::Stop(random.pick(&law) as Token),
            }
        })
    }
}

/// Leviathan et al.'s lossy greedy decoding, the form of [`Lossy`] for temperature 0: a draft `v` is accepted iff
/// `p(v) >= (1-α)·max p`, with `p` at temperature 1; the bonus is the argmax.
///
/// On a tree the test is put to a node's first child, the drafter's own choice; where that fails, the target's argmax
/// is emitted, by way of the child that drafted it if there is one. That makes it the same rule as the cascade
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

    fn accept(&self, tree: &TokenTree, _: DraftRows<'_>, target: Rows<'_>, _: &mut dyn RandomSource) -> Verdict {
        descend(|node| {
            let row = target.verified(node);
            let best = row.argmax() as Token;
            let Some(first) = tree.children(node).next() else { return Move::Stop(best) };
            let law = Transform::IDENTITY.apply(row);
            if mass(&law, tree.token(first)) >= (1.0 - self.alpha) * mass(&law, best) {
                return Move::Follow(first);
            }
            let guess = tree.children(node).find(|&child| tree.token(child) == best);
            guess.map_or(Move::Stop(best), Move::Follow)
        })
    }
}

/// The output law of lossy sampling of one draft from `q`:
/// `min(q, p/(1-α)) + (1 - Σ_v min(q, p/(1-α)))·norm(max(0, p/β - q))`, the residual being `p` where it is empty.
///
/// # Shapes
/// `target [vocab]` and `draft [vocab]` to `[vocab]`.
pub fn lossy_law(target: &[f64], draft: &[f64], alpha: f64, beta: f64) -> PooledVec<f64> {
    let loose: PooledVec<f64> = target.iter().map(|p| p / (1.0 - alpha)).collect();
    let scaled: PooledVec<f64> = target.iter().map(|p| p / beta).collect();
    let left = residual(&scaled, draft).unwrap_or_else(|| target.into());
    let rejected = 1.0 - overlap(&loose, draft);
    let accepted = loose.iter().zip(draft).map(|(p, &q)| p.min(q));
    accepted.zip(&left).map(|(accepted, left)| accepted + rejected * left).collect()
}

#[cfg(test)]
mod tests;
