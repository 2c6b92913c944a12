//! The trait of acceptance rules.

use super::{DraftRows, RandomSource, TargetError, TargetOutput, TargetRows};
use crate::{PooledVec, Token, dist::Transform, tree::TokenTree};

/// The decision of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Nodes from the root (included) to the last accepted one.
    pub path: PooledVec<usize>,
    /// The token emitted after the path.
    pub bonus: Token,
}

/// A rule that turns a verified tree into emitted tokens.
pub trait AcceptanceRule: Send + Sync {
    /// Whether the emitted text has exactly the target's distribution (for greedy: is the target's greedy text).
    fn is_lossless(&self) -> bool;

    /// The least of the target's output that [`accept`](Self::accept) and [`next`](Self::next) can decide from. More is
    /// always accepted.
    fn needs(&self) -> TargetOutput {
        TargetOutput::Logits
    }

    /// The transform under which the target picks its tokens by the noise of the random source, whatever was drafted.
    /// Drafters may then read that noise. `None`: the rule makes random choices of its own, and drafters must not.
    fn coupling(&self) -> Option<Transform> {
        None
    }

    /// Picks a root-to-node path and a bonus token. Only the rows of nodes that the rule visits are read. Probes are
    /// never on the path.
    ///
    /// # Shapes
    /// `target` has one row (or token) per node of `tree`: the target's output after that node's input. Sources of
    /// `draft` that have rows have one per node as well.
    ///
    /// # Errors
    /// If `target` ends before a visited node, or holds argmax tokens where the rule has to read logits (see
    /// [`needs`](Self::needs)). Whatever `draft` holds causes no error and no panic.
    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError>;

    /// The token after `last` when nothing was drafted: the plain sampler's, or the argmax. It has the distribution of
    /// [`accept`](Self::accept)'s bonus on a lone root.
    ///
    /// # Shapes
    /// `target` has one row.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    fn next(&self, last: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(self.accept(&TokenTree::root(last), DraftRows::NONE, target, random)?.bonus)
    }
}
