//! Attention of a few new rows over a cached prefix and over each other.
//!
//! Row `i` of a forward pass sees the whole prefix and, of the rows in flight, its ancestors and itself. In a prefill
//! chunk or a chain these are all rows before it; in a token tree they are the path from the root.

mod cached;
#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod flight;
mod host_kv;
pub(crate) mod kernel;
pub mod reference;

pub use cached::attend_cached;
pub use flight::Flight;
pub use host_kv::HostKv;
pub use kernel::attend as attend_rows;

use gorgon_core::Recycled;

/// What attention does besides the softmax.
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

/// Which of the rows in flight each of them sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// Row `i` sees rows `0..=i`: a prompt or a chain.
    Causal {
        /// Number of rows.
        rows: usize,
    },
    /// Row `i` sees the listed rows, in the order of their positions, itself last: a token tree, or a level of one.
    Paths {
        /// Rows in flight that earlier passes wrote: row `i` of this pass is row `first + i` in flight, and lists count
        /// so.
        first: usize,
        /// All lists, one after the other.
        nodes: Recycled<u32>,
        /// Row `i`'s list is `nodes[starts[i]..starts[i + 1]]`.
        starts: Recycled<usize>,
    },
}

impl Visible {
    /// Visibility from one root-to-node path per row.
    pub fn from_paths(paths: impl IntoIterator<Item = impl AsRef<[usize]>>) -> Self {
        Self::after(0, paths)
    }

    /// Visibility of the rows of a further pass over a tree of which `first` rows are in flight already: one path per
    /// row, itself last.
    pub fn after(first: usize, paths: impl IntoIterator<Item = impl AsRef<[usize]>>) -> Self {
        let (mut nodes, mut starts) = (Recycled::new(), Recycled::of(0, 1));
        for path in paths {
            nodes.extend(path.as_ref().iter().map(|&node| node as u32));
            starts.push(nodes.len());
        }
        Visible::Paths { first, nodes, starts }
    }

    /// The visibility in a tree, whose root sees itself and whose other nodes see what their parents see and
    /// themselves.
    ///
    /// # Shapes
    /// `parents [nodes]`, each less than its node; the root's is not looked at.
    pub fn in_tree(parents: &[usize]) -> Self {
        let (mut nodes, mut starts) = (Recycled::<u32>::new(), Recycled::of(0, 1));
        for (node, &parent) in parents.iter().enumerate() {
            if node > 0 {
                let seen: std::ops::Range<usize> = starts[parent]..starts[parent + 1];
                nodes.extend_from_within(seen);
            }
            nodes.push(node as u32);
            starts.push(nodes.len());
        }
        Visible::Paths { first: 0, nodes, starts }
    }

    /// Number of rows of this pass.
    pub fn rows(&self) -> usize {
        match self {
            Visible::Causal { rows } => *rows,
            Visible::Paths { starts, .. } => starts.len() - 1,
        }
    }

    /// Number of rows that earlier passes left in flight: the place of this pass's first row among all of them.
    pub fn first(&self) -> usize {
        match self {
            Visible::Causal { .. } => 0,
            Visible::Paths { first, .. } => *first,
        }
    }

    /// Number of rows in flight once this pass is done.
    pub fn in_flight(&self) -> usize {
        self.first() + self.rows()
    }

    /// How many rows in flight row `row` sees, itself included: one more than its depth.
    pub fn count(&self, row: usize) -> usize {
        match self {
            Visible::Causal { .. } => row + 1,
            Visible::Paths { starts, .. } => starts[row + 1] - starts[row],
        }
    }

    /// The `index`-th row that row `row` sees, in the order of positions.
    #[inline(always)]
    pub fn nth(&self, row: usize, index: usize) -> usize {
        match self {
            Visible::Causal { .. } => index,
            Visible::Paths { nodes, starts, .. } => nodes[starts[row] + index] as usize,
        }
    }
}
