//! A budget for drafters that make their trees themselves.

use super::{MAX_DEPTH, MAX_NODES};

mod grow;

/// A budget of nodes and depth, written `own:NODES,DEPTH`. A drafter that knows its tree makes a
/// [`DraftTree`](super::DraftTree) within it; [`TreeKind::Own`](super::TreeKind::Own) says so.
///
/// For a plain [`CandidateSource`](super::CandidateSource) the tree grows best-first: it holds the `nodes - 1` drafts
/// of the greatest path probability among all paths of at most `depth` drafts that the source names. The source is
/// asked once per level, for as many candidates as the budget leaves room for below a node of that level. Ties go to
/// the node drafted earlier: the shallower one, then the one under the more probable parent, then the candidate named
/// earlier. Nodes keep the order in which they were drafted.
///
/// Candidates must be a list, not samples: the best of several samples no longer follow the distribution they were
/// drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnTree {
    nodes: usize,
    depth: usize,
}

/// A budget that no tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnError {
    /// The number of nodes is 0 or above [`MAX_NODES`].
    #[error("a tree has 1 to {MAX_NODES} nodes, its root included, not {0}")]
    Nodes(usize),
    /// The depth is above [`MAX_DEPTH`].
    #[error("a tree of its drafter's own is at most {MAX_DEPTH} drafts deep, not {0}")]
    Depth(usize),
}

impl OwnTree {
    /// A budget of `nodes` nodes (the root and probes included) and `depth` drafts per path.
    ///
    /// # Errors
    /// If there is no room for a root, or a size is absurdly large.
    pub fn new(nodes: usize, depth: usize) -> Result<Self, OwnError> {
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(OwnError::Nodes(nodes));
        }
        if depth > MAX_DEPTH {
            return Err(OwnError::Depth(depth));
        }
        Ok(Self { nodes, depth })
    }

    /// The most nodes, the root and probes included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The most drafts on a path.
    pub fn depth(&self) -> usize {
        self.depth
    }
}

#[cfg(test)]
mod tests;
