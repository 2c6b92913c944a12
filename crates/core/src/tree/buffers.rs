//! The index tables that Medusa derives from a tree shape.

use super::{AncestorMask, TreeShape, leaves};

/// The buffers of the Medusa reference (`generate_medusa_buffers`), for a shape's nodes in canonical order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MedusaBuffers {
    /// Who sees whom, `[nodes, nodes]`.
    pub mask: AncestorMask,
    /// Which candidate each node takes, `[nodes]`: 0 for the root (the base token), else `1 + top_k·(depth - 1) +
    /// rank`: an index into the base token followed by the `top_k` likeliest tokens of head 0, of head 1, and so on.
    pub tree_indices: Vec<usize>,
    /// Positions relative to the root, `[nodes]`: the depths.
    pub position_ids: Vec<usize>,
    /// The root-to-leaf paths.
    pub retrieve: RetrieveIndices,
}

/// The root-to-leaf paths of a tree, one row per leaf, the last leaf first (the order of the reference).
///
/// The reference pads short rows with -1, which as an index means the *last* node, so that a padded entry can look like
/// an accepted token. Here a row simply ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrieveIndices {
    rows: Vec<Vec<usize>>,
    width: usize,
}

/// A rank that no head offers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the last rank of the tree's node {path:?} is not among the {top_k} likeliest tokens that are kept per head")]
pub struct BufferError {
    /// The node.
    pub path: Vec<usize>,
    /// Candidates kept per head.
    pub top_k: usize,
}

impl MedusaBuffers {
    /// The buffers of `shape` for heads of which the `top_k` likeliest tokens are kept (10 in the reference).
    ///
    /// # Errors
    /// If a node's rank is `top_k` or more: its index would be that of another head's token.
    pub fn new(shape: &TreeShape, top_k: usize) -> Result<Self, BufferError> {
        let mut tree_indices = vec![0];
        for path in shape.paths() {
            let (head, rank) = (path.len() - 1, path[path.len() - 1]);
            if rank >= top_k {
                return Err(BufferError { path: path.clone(), top_k });
            }
            tree_indices.push(1 + top_k * head + rank);
        }
        Ok(Self {
            mask: AncestorMask::from_parents(shape.parents()),
            tree_indices,
            position_ids: (0..shape.len()).map(|node| shape.path(node).len()).collect(),
            retrieve: RetrieveIndices::new(shape),
        })
    }
}

impl RetrieveIndices {
    fn new(shape: &TreeShape) -> Self {
        let path = |leaf: usize| {
            let upwards = std::iter::successors(Some(leaf), |&node| (node > 0).then(|| shape.parents()[node]));
            let mut path: Vec<usize> = upwards.collect();
            path.reverse();
            path
        };
        let rows = leaves(shape.parents()).into_iter().rev().map(path).collect();
        Self { rows, width: shape.max_depth() + 1 }
    }

    /// The paths, each from the root to a leaf; rows differ in length.
    pub fn rows(&self) -> &[Vec<usize>] {
        &self.rows
    }

    /// The length of the longest row: the number of columns of the padded table.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The entry of the padded table `[leaves, width]`; `None` for padding and outside the table.
    pub fn get(&self, row: usize, column: usize) -> Option<usize> {
        self.rows.get(row)?.get(column).copied()
    }
}
