//! A drafter's cache rows while it drafts one tree.

use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::Visible;
use std::collections::BTreeMap;

/// Rows in flight by node: each level of a tree adds its own, and the next one sees its ancestors among them. Where the
/// root was not added, its row is committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    rows: BTreeMap<usize, usize>,
}

impl InFlight {
    /// Adds a row for each of `nodes`, whose ancestors below the root have theirs, and says what the new rows see.
    pub fn add(&mut self, tree: &TokenTree, nodes: &[usize]) -> Visible {
        let first = self.rows.len();
        self.rows.extend(nodes.iter().enumerate().map(|(i, &node)| (node, first + i)));
        let row = |node: &usize| self.rows.get(node).copied();
        let paths: Vec<Vec<usize>> =
            nodes.iter().map(|&node| tree.path(node).iter().filter_map(row).collect()).collect();
        Visible::after(first, paths.iter().map(Vec::as_slice))
    }
}
