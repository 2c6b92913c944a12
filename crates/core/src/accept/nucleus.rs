//! Sample and match: draw from the target as plain decoding would, and follow the draft that guessed the draw.

use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{Token, dist::Transform, tree::TokenTree};

/// Draws one token at each node of the path from the target's own transformed (temperature, top-p) distribution,
/// follows the child that equals it, and where none does emits that very token as the bonus.
///
/// Lossless for that distribution, whatever the drafter does: the drawn tokens never depend on the draft. (Medusa's
/// reference draws separately per candidate row and redraws the bonus, which favours drafted tokens and is not
/// lossless.) A draft is accepted with its target probability, so [`Sampling`](super::Sampling) accepts at least as
/// often when the drafter's distribution is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nucleus {
    /// Applied to target rows before a token is drawn.
    pub transform: Transform,
}

impl AcceptanceRule for Nucleus {
    fn is_lossless(&self) -> bool {
        true
    }

    fn accept(
        &self,
        tree: &TokenTree,
        _: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        descend(|node| {
            let drawn = random.pick(&self.transform.apply(target.row(node)?)) as Token;
            let guess = tree.children(node).find(|&child| tree.token(child) == drawn);
            Ok(guess.map_or(Move::Stop(drawn), Move::Follow))
        })
    }
}
