//! A tree that is grown level by level and then cut to its most probable nodes, on a GPU: EAGLE-2's, as
//! `gorgon_core::tree::DynamicTree` defines it. Nothing is read back.
//!
//! Level 0 holds the top `top_k` children of the root; on each further level the `top_k` nodes of greatest value
//! have `top_k` children each. What was drafted are *candidates*, numbered in that order: level by level, the children
//! of a more valuable parent first, likelier siblings first. A candidate's value is the sum of the logarithms of the
//! probabilities on its path, in `f32` (the host sums in `f64`, so near-ties may be ordered differently).

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod launch;
pub mod reference;
#[cfg(feature = "gpu")]
mod top_tokens;

pub use launch::{descend, expand, finish};

use crate::tree_attention::{AttentionMask, PassTable};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The most candidates that the cut has room for.
pub const MOST_CANDIDATES: usize = 2048;

/// Sizes of a tree that is growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Nodes that are expanded on a level, and children of each: as many as there are tokens at most.
    pub top_k: usize,
    /// Levels below the first one.
    pub depth: usize,
    /// Nodes that are kept, the root included: one more than there are candidates at most.
    pub nodes: usize,
}

impl Growth {
    /// Candidates in all.
    pub fn candidates(&self) -> usize {
        self.first(self.depth + 1)
    }

    /// The first candidate of a level.
    pub fn first(&self, level: usize) -> usize {
        if level == 0 { 0 } else { self.top_k + (level - 1) * self.top_k * self.top_k }
    }

    /// Nodes of the longest path there can be, the root included.
    pub fn longest(&self) -> usize {
        (self.depth + 2).min(self.nodes)
    }
}

/// State of a tree while it grows, on a device: allocated once, written in place.
#[derive(Clone, Debug)]
pub struct GrowingTree {
    growth: Growth,
    /// Values by candidate, `[C]`.
    values: Tensor<1>,
    /// Tokens by candidate, then parents: 0 for the root, else one more than the candidate, `[2 · C]`.
    pool: Tensor<1, Int>,
    /// Whether a candidate is kept, `[C]`.
    kept: Tensor<1, Int>,
    /// The candidates that are expanded next, most valuable first, `[top_k]`.
    frontier: Tensor<1, Int>,
    /// For each row of the next pass the row of the last one that its parent was, padding included, `[R]`.
    slots: Tensor<1, Int>,
    /// The pass over the frontier of each level but the last.
    passes: Vec<PassTable>,
}

impl GrowingTree {
    /// Room for a tree. The draft layer's rows see as far back as `window` says, which is more than the tree's depth.
    ///
    /// # Panics
    /// If there are more candidates than [`MOST_CANDIDATES`], or more nodes than candidates.
    pub fn new(growth: Growth, window: Option<usize>, slots: usize, device: &Device) -> Self {
        let Growth { top_k, depth, nodes } = growth;
        let candidates = growth.candidates();
        assert!(candidates <= MOST_CANDIDATES && (2..=candidates + 1).contains(&nodes), "{growth:?}");
        assert!(window.is_none_or(|window| window > depth), "a window within the tree");
        let ints = |size: usize| Tensor::from_data(TensorData::new(vec![0i32; size], [size]), device);
        let pass = |level: usize| {
            let rows: Vec<Vec<usize>> = (0..top_k).map(|row| vec![level * top_k + row]).collect();
            let visible = AttentionMask::after(level * top_k, rows.iter().map(Vec::as_slice));
            PassTable::new(&vec![0; top_k], &visible, 0, slots, &[window], device)
        };
        Self {
            growth,
            values: Tensor::from_data(TensorData::new(vec![0f32; candidates], [candidates]), device),
            pool: ints(2 * candidates),
            kept: ints(candidates),
            frontier: ints(top_k),
            slots: ints(PassTable::padded(top_k)),
            passes: (0..depth).map(pass).collect(),
        }
    }

    /// The sizes.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// The pass over the nodes chosen of `level`, `0..depth`.
    pub fn pass(&self, level: usize) -> &PassTable {
        &self.passes[level]
    }

    /// For each row of the next pass the row of the last one that its parent was, padding included, `[R]`.
    pub fn slots(&self) -> Tensor<1, Int> {
        self.slots.clone()
    }
}
