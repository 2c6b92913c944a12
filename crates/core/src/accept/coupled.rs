//! Plain sampling by keyed noise, and the rule that follows the drafts that guessed it.

use super::walk::{Move, descend};
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    Token,
    dist::{Row, Transform},
    tree::TokenTree,
};

/// Coupled sampling ([Daliri et al., 2024](https://arxiv.org/abs/2408.07978)): at each node of the path the target emits
/// its own token, `argmax_x (ln p(x) + G(position, x))` after all transforms; the child that equals it is followed, and
/// where none does that token is the bonus.
///
/// Lossless whatever the drafter does: an emitted token depends on the text before it and the noise alone. With keyed
/// noise ([`Noise`](super::Noise)) the text is plain sampling's token for token, with any tree, since plain sampling is
/// the same [`plain`]. A drafter may read the noise, because this rule tests no ratio. A rule that does must
/// not share it: the draw it makes after a rejection would depend on the draft.
///
/// With a source that has no noise it is sample-and-match: a draft is accepted with its target probability. (Medusa's
/// reference draws separately per candidate row and redraws the bonus, which favours drafted tokens and is not lossless.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupled {
    /// Applied to target rows before a token is drawn.
    pub transform: Transform,
}

impl AcceptanceRule for Coupled {
    fn is_lossless(&self) -> bool {
        true
    }

    fn coupling(&self) -> Option<Transform> {
        Some(self.transform)
    }

    fn accept(
        &self,
        tree: &TokenTree,
        _: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        descend(|node| {
            let emitted = plain(&self.transform, target.row(node)?, tree.depths()[node], random);
            let guess = tree.children(node).find(|&child| tree.token(child) == emitted);
            Ok(guess.map_or(Move::Stop(emitted), Move::Follow))
        })
    }
}

/// The plain sampler: the token that is emitted `depth` tokens after the position, where the target's row is `row`.
pub(super) fn plain(transform: &Transform, row: Row<'_>, depth: usize, random: &mut dyn RandomSource) -> Token {
    random.emit(depth, &transform.apply(row)) as Token
}
