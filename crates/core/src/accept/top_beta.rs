//! SpecDec's relaxed verification.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, Rows, Verdict};
use crate::{
    Token,
    dist::{Transform, mass},
    tree::TokenTree,
};

/// Top-β with a gap (Xia et al. 2023, SpecDec): a draft `x` is accepted iff fewer than β tokens rank before it and
/// `ln max p - ln p(x) <= τ`, at temperature 1. Equally likely tokens rank by id. The bonus is the target's argmax. On
/// a tree the longest accepted path wins, then the likeliest, then the first.
///
/// Not lossless (with β = 1 or τ = 0 little is left of the slack, but nothing is promised).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopBeta {
    /// β: how many of the target's likeliest tokens are acceptable.
    pub beta: usize,
    /// τ: the greatest tolerated gap to the likeliest token's log-probability, in nats.
    pub gap: f64,
}

impl AcceptanceRule for TopBeta {
    fn is_lossless(&self) -> bool {
        false
    }

    fn accept(&self, tree: &TokenTree, _: DraftRows<'_>, target: Rows<'_>, _: &mut dyn RandomSource) -> Verdict {
        let path = longest_accepted(tree, |node| {
            let row = target.verified(node);
            let law = Transform::IDENTITY.apply(row);
            let greatest = mass(&law, row.argmax() as Token);
            move |token| {
                let p = mass(&law, token);
                let is_near = p > 0.0 && greatest.ln() - p.ln() <= self.gap;
                (is_near && rank(&law, token) < self.beta).then(|| p.ln())
            }
        });
        let bonus = target.verified(path[path.len() - 1]).argmax() as Token;
        Verdict { path, bonus }
    }
}

/// How many tokens rank before `token`: the likelier ones and the equally likely ones of lower id.
fn rank(law: &[f64], token: Token) -> usize {
    let (p, id) = (mass(law, token), token as usize);
    law.iter().enumerate().filter(|&(other, &mass)| mass > p || (mass == p && other < id)).count()
}
