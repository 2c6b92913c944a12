//! The seam between drafters and trees: a drafter names candidates, a builder decides which become nodes.

use super::{Candidate, CandidateRows, DraftTree, TokenTree, TreeKind};
use crate::Token;

/// Whatever went wrong inside a drafter; `?` turns any error into one.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Names the children of tree nodes. A drafter implements this; builders call [`expand`](Self::expand) once per level,
/// so that a drafter runs one batch per level.
pub trait CandidateSource {
    /// The candidates after each of `nodes`: row `i` holds at most `widths[i]` of them, most likely first (or in the
    /// order drawn). Fewer is fine, also none: the tree is then smaller there.
    ///
    /// `tree` holds every node so far; node numbers never change while one tree is being built, and all `nodes` of a
    /// call have the same depth.
    ///
    /// # Shapes
    /// `nodes` and `widths` have one entry per node to expand, as must the result.
    ///
    /// # Errors
    /// Whatever the drafter cannot do; the builder passes it on as [`BuildError::Source`].
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError>;
}

/// Why a tree could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The drafter failed.
    #[error("the drafter failed to name candidates")]
    Source(#[source] SourceError),
    /// The drafter answered for a different number of nodes.
    #[error("the drafter was asked about {asked} nodes and answered for {answered}")]
    RowCount {
        /// Nodes to expand.
        asked: usize,
        /// Rows returned.
        answered: usize,
    },
}

/// Grows a token tree from a drafter's candidates.
pub trait TreeBuilder: Send + Sync {
    /// The most nodes a tree can have, the root included: the size to reserve buffers for.
    fn max_nodes(&self) -> usize;

    /// The greatest depth a node can have: the most drafts that one step can accept.
    fn max_depth(&self) -> usize;

    /// Whether the children of a node are its first candidates, in their order and with none left out between them.
    /// Only then are sampled candidates still samples when they are children; otherwise candidates have to be a list.
    fn takes_in_order(&self) -> bool {
        false
    }

    /// Candidates that are asked for at most after a node of depth `depth`, if their order is all that the builder
    /// looks at. `None` if it looks at probabilities too: a drafter then has to compute them.
    fn ranks_at(&self, _depth: usize) -> Option<usize> {
        None
    }

    /// Properties of its trees that are known before anything is drafted.
    fn kind(&self) -> TreeKind;

    /// True if the size of the tree is a budget for drafts and probes together, as that of an own tree is.
    fn is_budget(&self) -> bool {
        false
    }

    /// Builds one tree on `root`, the last emitted token.
    ///
    /// # Errors
    /// When the drafter fails or answers for the wrong number of nodes.
    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError>;
}

/// Asks the drafter about one level. Rows longer than asked are cut, and a probability outside `[0, 1]` is moved into
/// it (not-a-number counts as 0): drafters are untrusted, and a wrong number here may only cost speed.
///
/// No call is made for an empty level.
pub(super) fn expand_level(
    source: &mut dyn CandidateSource,
    tree: &TokenTree,
    nodes: &[usize],
    widths: &[usize],
) -> Result<CandidateRows, BuildError> {
    if nodes.is_empty() {
        return Ok(CandidateRows::default());
    }
    let rows = source.expand(tree, nodes, widths).map_err(BuildError::Source)?;
    if rows.len() != nodes.len() {
        return Err(BuildError::RowCount { asked: nodes.len(), answered: rows.len() });
    }
    let in_range = |candidate: &Candidate| {
        let probability = candidate.probability;
        Candidate { probability: if probability > 0.0 { probability.min(1.0) } else { 0.0 }, ..*candidate }
    };
    Ok(rows.iter().zip(widths).map(|(row, &width)| row.iter().take(width).map(in_range)).collect())
}
