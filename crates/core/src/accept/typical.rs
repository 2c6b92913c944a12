//! Medusa's typical acceptance.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    PooledVec, Token,
    dist::{Row, Transform, mass, typical_threshold},
    tree::TokenTree,
};

/// Typical acceptance (Medusa, section 2.3.1): a draft `x` is accepted iff `p(x) > min(ε, δ·exp(-H(p)))`, with `p` and
/// its entropy `H` (of the reference's smoothed kind) at a temperature. The longest accepted path wins, then the
/// greatest sum of log-probabilities of accepted drafts, then the first node. The bonus is the target's argmax.
///
/// Not lossless: it asks whether a draft is plausible, not whether the target would have drawn it. At temperature 0 it
/// accepts what [`Greedy`](super::Greedy) accepts. Top-k and top-p play no part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    /// ε: a draft at least this likely is always accepted.
    pub epsilon: f64,
    /// δ: scales the entropy-dependent threshold.
    pub delta: f64,
    /// Its temperature is that of `p`; the rest of it plays no part.
    pub transform: Transform,
}

/// One target row's probabilities and acceptance threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct TypicalCut {
    p: PooledVec<f64>,
    threshold: f64,
}

impl TypicalCut {
    /// The log-probability of `token` if it is accepted here.
    pub fn accepted(&self, token: Token) -> Option<f64> {
        let own = mass(&self.p, token);
        (own > self.threshold).then(|| own.ln())
    }
}

impl Typical {
    /// The reference's default ε.
    pub const EPSILON: f64 = 0.09;
    /// The reference's default δ, which is √ε.
    pub const DELTA: f64 = 0.3;

    /// Judges the drafts that follow the token whose target row this is.
    pub fn cut(&self, row: Row<'_>) -> TypicalCut {
        let p = self.transform.uncut().apply(row);
        let threshold = typical_threshold(&p, self.epsilon, self.delta);
        TypicalCut { p, threshold }
    }
}

impl AcceptanceRule for Typical {
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
            let cut = self.cut(target.row(node)?);
            Ok(move |token| cut.accepted(token))
        })?;
        let bonus = target.argmax(path[path.len() - 1])?;
        Ok(Verdict { path, bonus })
    }
}
