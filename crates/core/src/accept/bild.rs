//! The rollback of Big Little Decoder.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, Rows, Verdict};
use crate::{
    Token,
    dist::{Transform, mass},
    tree::TokenTree,
};

/// BiLD's rollback policy (Kim et al. 2023): the target checks the drafted block and rolls back to the first position
/// where the distance `D(q, p)` exceeds the threshold, emitting its own argmax there.
///
/// The distance is the paper's: the cross-entropy of the target against the small model's hard label, which is
/// `-ln p(x)` for the drafted token `x`, in nats, at temperature 1. It needs no draft row, so the rule serves every
/// drafter. On a tree the longest path without such a position wins, then the likeliest, then the first.
///
/// Not lossless. The small model's side, the fallback policy that ends a block where `max q < α_FB`, belongs to the
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

    fn accept(&self, tree: &TokenTree, _: DraftRows<'_>, target: Rows<'_>, _: &mut dyn RandomSource) -> Verdict {
        let path = longest_accepted(tree, |node| {
            let law = Transform::IDENTITY.apply(target.verified(node));
            move |token| {
                let log_probability = mass(&law, token).ln();
                // An impossible token is infinitely far off and never accepted, whatever the threshold.
                (log_probability.is_finite() && -log_probability <= self.rollback).then_some(log_probability)
            }
        });
        let bonus = target.verified(path[path.len() - 1]).argmax() as Token;
        Verdict { path, bonus }
    }
}
