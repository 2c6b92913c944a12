//! Attention of a few new rows over a cached prefix and over each other.
//!
//! Row `i` of a forward pass sees all committed rows and some of the uncommitted ones. In a prefill chunk or a chain
//! these are itself and all rows before it. In a token tree they are the path from the root.

mod cached;
#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
#[cfg(feature = "gpu")]
mod flash;
mod host_kv;
#[cfg(feature = "gpu")]
mod join;
pub(crate) mod kernel;
#[cfg(feature = "gpu")]
mod launch;
mod pass_rows;
mod pass_table;
mod position_bias;
pub mod reference;
#[cfg(feature = "gpu")]
pub(crate) mod sequences;
#[cfg(feature = "gpu")]
mod tile;

pub use cached::attend_cached;
pub use host_kv::HostKv;
pub use kernel::{attend as attend_rows, attend_biased};
pub use pass_rows::{PassRows, RowView};
pub use pass_table::PassTable;
pub use position_bias::PositionBias;

use gorgon_core::PooledVec;

/// Options of attention beside the softmax.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Size of a head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// `s ← cap · tanh(s / cap)` before the softmax.
    pub soft_cap: Option<f32>,
    /// A row sees itself and the `window - 1` positions before it.
    pub window: Option<usize>,
}

/// Which uncommitted rows each row of a pass sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttentionMask {
    /// Row `i` sees rows `0..=i`: a prompt or a chain.
    Causal {
        /// Number of rows.
        rows: usize,
    },
    /// Row `i` sees the listed rows, in the order of their positions: a token tree, a level of one, or a block.
    Paths {
        /// Uncommitted rows of earlier passes: row `i` of this pass is uncommitted row `first + i`, and lists count so.
        first: usize,
        /// All lists, one after the other.
        nodes: PooledVec<u32>,
        /// Row `i`'s list is `nodes[starts[i]..starts[i + 1]]`.
        starts: PooledVec<usize>,
    },
    /// Every row sees all committed rows and no uncommitted one: a text that reads itself whole, whose rows are the
    /// last committed ones, or rows that read another text.
    Committed {
        /// Number of rows.
        rows: usize,
    },
}

impl AttentionMask {
    /// The mask of one root-to-node path per row.
    pub fn from_paths(paths: impl IntoIterator<Item = impl AsRef<[usize]>>) -> Self {
        Self::after(0, paths)
    }

    /// The mask of a further pass over a tree of which `first` rows are uncommitted already: one path per row, itself
    /// last.
    pub fn after(first: usize, paths: impl IntoIterator<Item = impl AsRef<[usize]>>) -> Self {
        let (mut nodes, mut starts) = (PooledVec::new(), PooledVec::of(0, 1));
        for path in paths {
            nodes.extend(path.as_ref().iter().map(|&node| node as u32));
            starts.push(nodes.len());
        }
        AttentionMask::Paths { first, nodes, starts }
    }

    /// The mask of a tree: a node sees itself and the nodes that its parent sees.
    ///
    /// # Shapes
    /// `parents [nodes]`, each less than its node; the root's is not read.
    pub fn in_tree(parents: &[usize]) -> Self {
        let (mut nodes, mut starts) = (PooledVec::<u32>::new(), PooledVec::of(0, 1));
        for (node, &parent) in parents.iter().enumerate() {
            if node > 0 {
                let seen: std::ops::Range<usize> = starts[parent]..starts[parent + 1];
                nodes.extend_from_within(seen);
            }
            nodes.push(node as u32);
            starts.push(nodes.len());
        }
        AttentionMask::Paths { first: 0, nodes, starts }
    }

    /// Number of rows of this pass.
    pub fn rows(&self) -> usize {
        match self {
            AttentionMask::Causal { rows } | AttentionMask::Committed { rows } => *rows,
            AttentionMask::Paths { starts, .. } => starts.len() - 1,
        }
    }

    /// Number of uncommitted rows of earlier passes: this pass's first row comes after them.
    pub fn first(&self) -> usize {
        match self {
            AttentionMask::Causal { .. } | AttentionMask::Committed { .. } => 0,
            AttentionMask::Paths { first, .. } => *first,
        }
    }

    /// Number of uncommitted rows once this pass is done.
    pub fn uncommitted(&self) -> usize {
        match self {
            AttentionMask::Committed { .. } => 0,
            mask => mask.first() + mask.rows(),
        }
    }

    /// Number of uncommitted rows that row `row` sees, itself included. In a tree it is one more than its depth.
    pub fn count(&self, row: usize) -> usize {
        match self {
            AttentionMask::Causal { .. } => row + 1,
            AttentionMask::Committed { .. } => 0,
            AttentionMask::Paths { starts, .. } => starts[row + 1] - starts[row],
        }
    }

    /// The `index`-th row that row `row` sees, in the order of positions.
    #[inline(always)]
    pub fn nth(&self, row: usize, index: usize) -> usize {
        match self {
            AttentionMask::Causal { .. } | AttentionMask::Committed { .. } => index,
            AttentionMask::Paths { nodes, starts, .. } => nodes[starts[row] + index] as usize,
        }
    }
}
