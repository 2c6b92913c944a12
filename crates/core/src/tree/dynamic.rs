//! EAGLE-2's dynamic tree: expand where paths are likely, then keep the most probable nodes.

use super::{MAX_DEPTH, MAX_NODES, MAX_RANK};

mod grow;

/// The most nodes that may be drafted before the best of them are kept.
const MAX_DRAFTED: usize = 1 << 16;
/// The most expansions after the first level.
const MAX_EXPANSIONS: usize = MAX_DEPTH - 1;
/// The most children of a node.
const MAX_TOP_K: usize = MAX_RANK + 1;

/// Expand and rerank (EAGLE-2). The value of a node is the product of draft probabilities along its path, an estimate
/// of the probability that it will be accepted.
///
/// 1. *Expand*: the first level holds the `top_k` most likely children of the root. Then, `depth` times, the `top_k`
///    nodes of greatest value on the last level get their `top_k` most likely children. Paths hold up to `depth + 1`
///    drafts.
/// 2. *Rerank*: of all drafted nodes the `total - 1` of greatest value are kept, and the root. Values never grow
///    along a path, so what is kept is connected.
///
/// Ties go to the node drafted earlier, and among the children of one node to the lower token id. Nodes keep the order
/// in which they were drafted: level by level, the children of a more valuable parent first, more likely siblings
/// first. If fewer nodes exist, the tree is smaller. Candidates must be the drafter's top-k tokens, not samples: the
/// best of several samples no longer follow the distribution they were drawn from.
///
/// Values are sums of logarithms in `f64`, so that long paths do not underflow; the reference sums `f32` log-softmaxes,
/// and may order near-ties differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DynamicTree {
    total_nodes: usize,
    depth: usize,
    top_k: usize,
}

/// Sizes no dynamic tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DynamicError {
    /// The total is 0 or above [`MAX_NODES`].
    #[error("a dynamic tree keeps 1 to {MAX_NODES} nodes, its root included, not {0}")]
    Total(usize),
    /// The depth is [`MAX_DEPTH`] or more.
    #[error("a dynamic tree is expanded at most {MAX_EXPANSIONS} times after its first level, not {0}")]
    Depth(usize),
    /// Top-k is 0 or beyond the greatest rank.
    #[error("a dynamic tree expands 1 to {MAX_TOP_K} nodes and children at a time, not {0}")]
    TopK(usize),
    /// Too many nodes would be drafted.
    #[error("{depth} expansions with top-k {top_k} draft up to {drafted} nodes; at most {MAX_DRAFTED} are allowed")]
    Drafted {
        /// Expansions after the first level.
        depth: usize,
        /// Nodes expanded per level and children of each.
        top_k: usize,
        /// Nodes drafted at most.
        drafted: usize,
    },
}

impl DynamicTree {
    /// A dynamic tree of at most `total_nodes` nodes (root included), `depth` expansions after the first level, and
    /// `top_k` nodes expanded per level into `top_k` children each.
    ///
    /// # Errors
    /// If a size is 0 where that makes no sense, or absurdly large.
    pub fn new(total_nodes: usize, depth: usize, top_k: usize) -> Result<Self, DynamicError> {
        if !(1..=MAX_NODES).contains(&total_nodes) {
            return Err(DynamicError::Total(total_nodes));
        }
        if depth > MAX_EXPANSIONS {
            return Err(DynamicError::Depth(depth));
        }
        if !(1..=MAX_TOP_K).contains(&top_k) {
            return Err(DynamicError::TopK(top_k));
        }
        let drafted = top_k + depth * top_k * top_k;
        if drafted > MAX_DRAFTED {
            return Err(DynamicError::Drafted { depth, top_k, drafted });
        }
        Ok(Self { total_nodes, depth, top_k })
    }

    /// The most nodes kept, the root included.
    pub fn total_nodes(&self) -> usize {
        self.total_nodes
    }

    /// The number of expansions after the first level.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The nodes expanded per level, and the children of each.
    pub fn top_k(&self) -> usize {
        self.top_k
    }
}
