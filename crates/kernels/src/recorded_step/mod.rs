//! A recorded step's decisions on a GPU: the argmax of each row, the accepted path of a tree of fixed shape, and the next
//! tree's tokens. Rows may get a sequence's noise first ([`perturb`]): their argmax then is a coupled sample. Nothing is
//! read back but the [`Outcome`].

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
#[cfg(feature = "gpu")]
pub(crate) mod greatest;
#[cfg(feature = "gpu")]
mod gumbel;
mod launch;
mod noise;
#[cfg(feature = "gpu")]
mod path;
pub mod reference;
#[cfg(feature = "gpu")]
pub(crate) mod segments;
mod trail;

pub use launch::{accept, argmax_rows, fill, follow, guide, overwrite, perturb, top_rows};
pub use noise::{NoisePositions, NoiseTable};
pub use trail::Trail;

use crate::tree_attention::PassTable;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The most nodes of a tree that every device accepts a path of: a unit each, in one cube.
pub const MOST_NODES: usize = 256;

/// A tree's shape on a device: of a fixed shape only the tokens change from step to step; a dynamic one is written
/// there ([`crate::dynamic_tree::finish`]).
#[derive(Clone, Debug)]
pub struct TreeTable {
    /// `[4 · R]`: parents, depths and ranks of all nodes, and whether they are on the first path, padding included.
    table: Tensor<1, Int>,
    nodes: usize,
    padded: usize,
    /// Nodes of the longest path.
    longest: usize,
}

impl TreeTable {
    /// The table of a tree: `parents[i]`, and `ranks[i]`, the place of node `i` among its head's guesses; those of the
    /// root are not read.
    pub fn new(parents: &[usize], ranks: &[usize], device: &Device) -> Self {
        let (nodes, padded) = (parents.len(), PassTable::padded(parents.len()));
        let depths = reference::depths(parents);
        let first = reference::first_path(parents);
        let first: Vec<usize> = (0..nodes).map(|node| usize::from(first.contains(&node))).collect();
        let mut values: Vec<i32> = vec![];
        for column in [parents, &depths, ranks, &first] {
            values.extend(column.iter().map(|&value| value as i32));
            values.resize(values.len() + padded - nodes, 0);
        }
        let longest = depths.iter().max().map_or(1, |depth| depth + 1);
        let table = Tensor::from_data(TensorData::new(values, [4 * padded]), device);
        Self { table, nodes, padded, longest }
    }

    /// Room for trees of `nodes` nodes whose paths have at most `longest`, to be written on the device.
    pub fn with_room(nodes: usize, longest: usize, device: &Device) -> Self {
        Self { longest, ..Self::new(&vec![0; nodes], &vec![0; nodes], device) }
    }

    /// Parents, depths, ranks, and whether a node is on the first path, `[4 · R]`.
    pub fn table(&self) -> &Tensor<1, Int> {
        &self.table
    }

    /// Nodes with padding.
    pub fn padded_nodes(&self) -> usize {
        self.padded
    }

    /// Nodes, the root included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Nodes of the longest path, the root included.
    pub fn longest(&self) -> usize {
        self.longest
    }
}

/// Decision of a step, on the device: `[prefix, length, rows[n], last, tokens[n]]` for paths of at most `n` nodes.
/// `rows` are the accepted nodes, `last` the deepest of them, `tokens` what is emitted: the accepted drafts, then the
/// bonus. A token below zero says that the scores of its row were no scores.
#[derive(Clone, Debug)]
pub struct Outcome {
    table: Tensor<1, Int>,
    longest: usize,
}

impl Outcome {
    /// Room for what is decided about a tree.
    pub fn new(tree: &TreeTable, device: &Device) -> Self {
        let size = 3 + 2 * tree.longest;
        Self { table: Tensor::from_data(TensorData::new(vec![0i32; size], [size]), device), longest: tree.longest }
    }

    /// The table: a path as [`crate::cache_rows::gather`] takes it.
    pub fn table(&self) -> &Tensor<1, Int> {
        &self.table
    }

    /// The deepest accepted node, `[1]`.
    pub fn last(&self) -> Tensor<1, Int> {
        self.table.clone().narrow(0, 2 + self.longest, 1)
    }

    /// Emitted tokens of a table that was read; empty if the table is none.
    pub fn emitted<'a>(&self, read: &'a [i32]) -> &'a [i32] {
        let length = read.get(1).map_or(0, |&length| length.max(0) as usize);
        read.get(3 + self.longest..3 + self.longest + length).unwrap_or(&[])
    }
}

/// Tokens that an oracle puts into trees, on a device: the first path (from each node on to its first child) gets
/// tokens that were chosen beforehand for each place of the root, and no other node the true token.
#[derive(Clone, Debug)]
pub struct Guide {
    /// `[P + P · depths]`: the true token of each position (-1 if it is not known), and the first path's tokens for a
    /// root at each position.
    table: Tensor<1, Int>,
    positions: usize,
    /// How deep its trees are.
    depths: usize,
    /// Size of the vocabulary: a true token off the first path becomes the one after it, round about.
    vocab: i32,
}

impl Guide {
    /// A guide for trees of `depths` levels below their roots, at as many positions as there are `truths`; `chosen[p]`
    /// is the first path below a root at position `p`.
    ///
    /// # Panics
    /// If a path is not as long as trees are deep.
    pub fn new(depths: usize, truths: &[Option<u32>], chosen: &[Vec<u32>], vocab: usize, device: &Device) -> Self {
        assert!(chosen.len() == truths.len() && chosen.iter().all(|path| path.len() == depths), "a path for each root");
        let mut values: Vec<i32> = truths.iter().map(|truth| truth.map_or(-1, |token| token as i32)).collect();
        values.extend(chosen.iter().flatten().map(|&token| token as i32));
        let size = values.len();
        let table = Tensor::from_data(TensorData::new(values, [size]), device);
        Self { table, positions: truths.len(), depths, vocab: vocab as i32 }
    }

    /// The table.
    pub fn table(&self) -> &Tensor<1, Int> {
        &self.table
    }
}
