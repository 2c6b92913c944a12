//! Greedy acceptance: the target's argmax and nothing else.

use super::walk::longest_accepted;
use super::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetOutput, TargetRows, Verdict};
use crate::{Token, tree::TokenTree};

/// Follows the child whose token is the target's argmax; the bonus is the argmax at the path's end. The lowest id wins
/// a tie, on raw rows, whatever the temperature.
///
/// Lossless for greedy decoding: the emitted text is the target's greedy text, token for token, because every accepted
/// draft and the bonus are argmaxes given the text before them (Stern et al. 2018; Leviathan et al. 2023 at T = 0).
/// Draft rows and the random source are not used, and argmax tokens are all that is needed of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Greedy;

impl AcceptanceRule for Greedy {
    fn is_lossless(&self) -> bool {
        true
    }

    fn needs(&self) -> TargetOutput {
        TargetOutput::Argmax
    }

    fn accept(
        &self,
        tree: &TokenTree,
        _: DraftRows<'_>,
        target: TargetRows<'_>,
        _: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        // Siblings may repeat a token; the longest of the equal paths is then the one to take.
        let path = longest_accepted(tree, |node| {
            let argmax = target.argmax(node)?;
            Ok(move |token| (token == argmax).then_some(0.0))
        })?;
        let bonus = target.argmax(path[path.len() - 1])?;
        Ok(Verdict { path, bonus })
    }

    fn next(&self, _: Token, target: TargetRows<'_>, _: &mut dyn RandomSource) -> Result<Token, TargetError> {
        target.argmax(0)
    }
}
