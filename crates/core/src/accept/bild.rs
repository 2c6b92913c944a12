//! The rollback of Big Little Decoder.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    dist::{Transform, mass},
    tree::TokenTree,
};

/// BiLD's rollback policy (Kim et al. 2023): the target checks the drafted block and rolls back to the first position
/// where the distance `D(q, p)` exceeds the threshold, emitting its own argmax there.
///
/// The distance is the paper's: the cross-entropy of the target against the draft model's hard label, which is
/// `-ln p(x)` for the drafted token `x`, in nats, at temperature 1. It needs no draft row, so the rule serves every
/// drafter, and entries play no part. On a tree the longest path without such a position wins, then the most likely,
/// then the first.
///
/// Not lossless. The draft model's side, the fallback policy that ends a block where `max q < α_FB`, belongs to the
/// drafter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bild {
    /// `α_RB`, in nats: the greatest distance that is tolerated.
    pub rollback: f64,
}

impl AcceptanceRule for Bild {
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
            let p = Transform::IDENTITY.apply(target.row(node)?);
            Ok(move |token| {
                let log_probability = mass(&p, token).ln();
                // An impossible token is infinitely far off and never accepted, whatever the threshold.
                (log_probability.is_finite() && -log_probability <= self.rollback).then_some(log_probability)
            })
        })?;
        let bonus = target.argmax(path[path.len() - 1])?;
        Ok(Verdict { path, bonus })
    }
}
