//! Token trees: what one verification pass looks at, and how they are grown.
//!
//! A [`TokenTree`] holds tokens. A [`TreeShape`] holds only ranks ("the second guess after the likeliest guess") and
//! becomes a token tree once a [`CandidateSource`] names the tokens. A [`TreeBuilder`] decides which nodes exist:
//!
//! * [`ChainTree`]: one path;
//! * [`FixedTree`]: a shape known beforehand, be it [published](PublishedTree), [calibrated] on measured accuracies or
//!   the optimum of [Sequoia's dynamic program](sequoia);
//! * [`DynamicTree`]: expands where the drafter is sure of itself and keeps the likeliest nodes (EAGLE-2).

mod buffers;
mod builder;
pub mod calibrated;
mod candidates;
mod chain;
mod choice;
mod dynamic;
mod fixed;
mod mask;
mod published;
pub mod sequoia;
mod shape;

pub use buffers::{BufferError, MedusaBuffers, RetrieveIndices};
pub use builder::{BuildError, CandidateSource, DraftTree, SourceError, TreeBuilder, TreeKind};
pub use candidates::{Candidate, CandidateRows};
pub use chain::{ChainError, ChainTree};
pub use choice::{ChoiceError, TreeChoice};
pub use dynamic::{DynamicError, DynamicTree};
pub use fixed::FixedTree;
pub use mask::AncestorMask;
pub use published::{PublishedTree, UnknownTree};
pub use shape::{RankPath, ShapeError, TreeShape};

use crate::{PooledVec, Token};

/// The largest tree that is built, in nodes with the root. Published trees have 64; one verification pass over more
/// than a few hundred nodes costs more than it can win.
pub const MAX_NODES: usize = 4096;

/// The greatest rank in a [`TreeShape`]: a node is at most its parent's 1024th guess.
pub const MAX_RANK: usize = 1023;

/// The greatest depth in a [`TreeShape`], the root being at depth 0.
pub const MAX_DEPTH: usize = 128;

/// A rooted tree of tokens, stored flat with parents before children. Node 0 is the root: the last emitted token, whose
/// key/value row is not yet in the target's cache. Every other node is a drafted token.
///
/// Sizes count the root everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenTree {
    tokens: PooledVec<Token>,
    /// `parents[0]` is 0 and is never read as a parent.
    parents: PooledVec<usize>,
    depths: PooledVec<usize>,
}

/// Why a list of tokens and parents is no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A tree has at least its root.
    #[error("a token tree needs a root, but no token was given")]
    Empty,
    /// The two lists describe different numbers of nodes.
    #[error("{tokens} tokens but {parents} parents: one parent per token is needed (the root's is ignored)")]
    LengthMismatch {
        /// Number of tokens given.
        tokens: usize,
        /// Number of parents given.
        parents: usize,
    },
    /// Parents must come before their children.
    #[error("node {node} names parent {parent}; a parent must come before its child")]
    ParentNotBefore {
        /// The offending node.
        node: usize,
        /// The parent it names.
        parent: usize,
    },
}

impl TokenTree {
    /// A tree of one node: plain decoding is the verification of a lone root.
    pub fn root(token: Token) -> Self {
        Self { tokens: PooledVec::of(token, 1), parents: PooledVec::of(0, 1), depths: PooledVec::of(0, 1) }
    }

    /// A tree from its flat form. `parents[0]` is ignored.
    ///
    /// # Errors
    /// When the lists are empty or of different lengths, or a parent does not come before its child.
    pub fn from_parts(tokens: Vec<Token>, mut parents: Vec<usize>) -> Result<Self, TreeError> {
        if tokens.is_empty() {
            return Err(TreeError::Empty);
        }
        if tokens.len() != parents.len() {
            return Err(TreeError::LengthMismatch { tokens: tokens.len(), parents: parents.len() });
        }
        parents[0] = 0;
        let mut depths = PooledVec::of(0, tokens.len());
        for node in 1..tokens.len() {
            let parent = parents[node];
            if parent >= node {
                return Err(TreeError::ParentNotBefore { node, parent });
            }
            depths[node] = depths[parent] + 1;
        }
        Ok(Self { tokens: tokens.into(), parents: parents.into(), depths })
    }

    /// Adds a drafted token under `parent` and returns its node number.
    ///
    /// # Panics
    /// If `parent` is not a node of this tree.
    pub fn push(&mut self, parent: usize, token: Token) -> usize {
        assert!(parent < self.len(), "parent {parent} is not a node of a tree of {} nodes", self.len());
        self.tokens.push(token);
        self.parents.push(parent);
        let depth = self.depths[parent] + 1;
        self.depths.push(depth);
        self.len() - 1
    }

    /// Number of nodes, the root included.
    #[allow(clippy::len_without_is_empty)] // a tree always has its root
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens by node.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The token at `node`.
    pub fn token(&self, node: usize) -> Token {
        self.tokens[node]
    }

    /// The parent of `node`; `None` for the root.
    pub fn parent(&self, node: usize) -> Option<usize> {
        (node > 0).then(|| self.parents[node])
    }

    /// Parents by node. The root's entry is 0, itself.
    pub fn parents(&self) -> &[usize] {
        &self.parents
    }

    /// Depths by node; the root has depth 0.
    pub fn depths(&self) -> &[usize] {
        &self.depths
    }

    /// The depth of the deepest node: the most drafts that one step can accept.
    pub fn max_depth(&self) -> usize {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// Position ids by node: `root_position + depth(node)`. Siblings share a position.
    pub fn positions(&self, root_position: usize) -> impl Iterator<Item = usize> + '_ {
        self.depths.iter().map(move |depth| root_position + depth)
    }

    /// Children of `node`, in insertion order.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        (node + 1..self.len()).filter(move |&child| self.parents[child] == node)
    }

    /// The other children of `node`'s parent, in insertion order. The root has none.
    pub fn siblings(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = self.parents[node];
        (1..self.len()).filter(move |&other| node > 0 && other != node && self.parents[other] == parent)
    }

    /// The nodes without children, in increasing order. A lone root is a leaf.
    pub fn leaves(&self) -> Vec<usize> {
        leaves(&self.parents)
    }

    /// The nodes from the root to `node`, both included.
    pub fn path(&self, node: usize) -> PooledVec<usize> {
        let mut path = PooledVec::of(0, self.depths[node] + 1);
        let mut at = node;
        for slot in path.iter_mut().rev() {
            *slot = at;
            at = self.parents[at];
        }
        path
    }

    /// The root-to-leaf paths, one per leaf, in the order of the leaves. Together they cover the tree.
    pub fn leaf_paths(&self) -> Vec<Vec<usize>> {
        self.leaves().into_iter().map(|leaf| self.path(leaf).to_vec()).collect()
    }
}

/// The nodes that are nobody's parent.
fn leaves(parents: &[usize]) -> Vec<usize> {
    let mut is_leaf = vec![true; parents.len()];
    for &parent in parents.iter().skip(1) {
        is_leaf[parent] = false;
    }
    (0..parents.len()).filter(|&node| is_leaf[node]).collect()
}
