//! SpecDec's relaxed verification.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    Token,
    dist::{Transform, mass},
    tree::TokenTree,
};

/// Top-β with a gap (Xia et al. 2023, SpecDec): a draft `x` is accepted iff fewer than β tokens rank before it and
/// `ln max p - ln p(x) <= τ`, at temperature 1. Equally likely tokens rank by id. The bonus is the target's argmax. On
/// a tree the longest accepted path wins, then the most likely, then the first.
///
/// Not lossless (with β = 1 or τ = 0 little is left of the slack, but nothing is promised).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopBeta {
    /// β: how many of the target's top tokens are acceptable.
    pub beta: usize,
    /// τ: the greatest tolerated gap to the top-1 token's log-probability, in nats.
    pub gap: f64,
}

impl AcceptanceRule for TopBeta {
    fn is_lossless(&self) -> bool {
        false
    }

    fn accept(
        &self,
        tree: &TokenTree,
        _: DraftRows<'_>,
        target: TargetRows<'_>,
        _: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        let path = longest_accepted(tree, |node| {
            let row = target.row(node)?;
            let p = Transform::IDENTITY.apply(row);
            let greatest = mass(&p, row.argmax() as Token);
            Ok(move |token| {
                let own = mass(&p, token);
                let is_near = own > 0.0 && greatest.ln() - own.ln() <= self.gap;
                (is_near && rank(&p, token) < self.beta).then(|| own.ln())
            })
        })?;
        let bonus = target.argmax(path[path.len() - 1])?;
        Ok(Verdict { path, bonus })
    }
}

/// How many tokens rank before `token`: the more likely ones and the equally likely ones of lower id.
fn rank(p: &[f64], token: Token) -> usize {
    let (own, id) = (mass(p, token), token as usize);
    p.iter().enumerate().filter(|&(other, &mass)| mass > own || (mass == own && other < id)).count()
}
