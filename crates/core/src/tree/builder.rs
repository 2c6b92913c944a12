//! The seam between drafters and trees: a drafter names candidates, a builder decides which become nodes.

use super::{Candidate, CandidateRows, DynamicTree, TokenTree, TreeShape};
use crate::{PooledVec, Token};

/// Whatever went wrong inside a drafter; `?` turns any error into one.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Names the children of tree nodes. A drafter implements this; builders call [`expand`](Self::expand) once per level,
/// so that a drafter runs one batch per level.
pub trait CandidateSource {
    /// The candidates after each of `nodes`: row `i` holds at most `widths[i]` of them, likeliest first (or in the
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
pub trait TreeBuilder: Sync {
    /// The most nodes a tree can have, the root included: the size to reserve buffers for.
    fn max_nodes(&self) -> usize;

    /// The greatest depth a node can have: the most drafts that one step can accept.
    fn max_depth(&self) -> usize;

    /// Whether the children of a node are its first candidates, in their order and with none left out between them.
    /// Only then are candidates that were drawn still draws when they are children; otherwise candidates have to be a
    /// list.
    fn takes_in_order(&self) -> bool {
        false
    }

    /// Candidates that are asked for at most after a node of depth `depth`, if their order is all that the builder
    /// looks at. `None` if it looks at probabilities too: a drafter then has to compute them.
    fn ranks_at(&self, _depth: usize) -> Option<usize> {
        None
    }

    /// What is known of its trees before anything is drafted.
    fn kind(&self) -> TreeKind;

    /// Builds one tree on `root`, the last emitted token.
    ///
    /// # Errors
    /// When the drafter fails or answers for the wrong number of nodes.
    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError>;
}

/// What is known of a builder's trees before anything is drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// They have this shape, as far as a drafter has candidates for it.
    Fixed(TreeShape),
    /// They are chains of so many drafts.
    Chain(usize),
    /// They go where paths are likely.
    Dynamic(DynamicTree),
}

impl TreeKind {
    /// The shape, if it is always the same; chains may be too deep for one.
    pub fn shape(&self) -> Option<TreeShape> {
        match self {
            Self::Fixed(shape) => Some(shape.clone()),
            Self::Chain(drafts) => TreeShape::cartesian(&vec![1; *drafts]).ok(),
            Self::Dynamic(_) => None,
        }
    }

    /// The dynamic tree that drafts the same: itself, or for a chain one that expands a single node, unless it is too
    /// deep.
    pub fn grown(&self) -> Option<DynamicTree> {
        match *self {
            Self::Fixed(_) => None,
            Self::Chain(drafts) => DynamicTree::new(drafts + 1, drafts.saturating_sub(1), 1).ok(),
            Self::Dynamic(tree) => Some(tree),
        }
    }
}

/// A drafted tree: tokens, and the drafter's probability of each given its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftTree {
    tree: TokenTree,
    probabilities: PooledVec<f64>,
    source_nodes: PooledVec<usize>,
}

impl DraftTree {
    /// A lone root.
    pub fn root(token: Token) -> Self {
        Self { tree: TokenTree::root(token), probabilities: PooledVec::of(1.0, 1), source_nodes: PooledVec::of(0, 1) }
    }

    /// The tokens and their arrangement.
    pub fn tree(&self) -> &TokenTree {
        &self.tree
    }

    /// The tree alone.
    pub fn into_tree(self) -> TokenTree {
        self.tree
    }

    /// The drafter's probability `q(node | parent)` by node, in `[0, 1]`; 1 for the root, and where it was not
    /// computed.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// For each node, the number it had in the tree that the drafter saw while it was being built. A builder that drops
    /// nodes afterwards renumbers them; a drafter finds its own rows (states, distributions) by these numbers.
    pub fn source_nodes(&self) -> &[usize] {
        &self.source_nodes
    }

    /// The same arrangement with other tokens; the root keeps its own.
    ///
    /// # Panics
    /// If there is not one token per node.
    pub fn with_tokens(&self, tokens: &[Token]) -> Self {
        assert_eq!(tokens.len(), self.tree.len(), "one token per node");
        let mut changed = Self::root(self.tree.token(0));
        for (node, &token) in tokens.iter().enumerate().skip(1) {
            let candidate = Candidate { token, probability: self.probabilities[node] };
            changed.push(self.tree.parents()[node], candidate);
            changed.source_nodes[node] = self.source_nodes[node];
        }
        changed
    }

    /// Adds a candidate under `parent` and returns its node number.
    pub(super) fn push(&mut self, parent: usize, candidate: Candidate) -> usize {
        let node = self.tree.push(parent, candidate.token);
        self.probabilities.push(candidate.probability);
        self.source_nodes.push(node);
        node
    }

    /// The tree of the root and `kept`, which is increasing and holds the parent of each of its nodes (unless that is
    /// the root).
    pub(super) fn keep(&self, kept: &[usize]) -> Self {
        let mut smaller = Self::root(self.tree.token(0));
        let mut renumbered = PooledVec::of(0, self.tree.len());
        for &node in kept {
            let candidate = Candidate { token: self.tree.token(node), probability: self.probabilities[node] };
            renumbered[node] = smaller.push(renumbered[self.tree.parents()[node]], candidate);
            smaller.source_nodes[renumbered[node]] = self.source_nodes[node];
        }
        smaller
    }
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
    let sound = |candidate: &Candidate| {
        let probability = candidate.probability;
        Candidate { probability: if probability > 0.0 { probability.min(1.0) } else { 0.0 }, ..*candidate }
    };
    Ok(rows.iter().zip(widths).map(|(row, &width)| row.iter().take(width).map(sound)).collect())
}
