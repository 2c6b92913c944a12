//! A drafter's cache rows while it drafts one tree.

use gorgon_core::PooledVec;
use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;

/// Uncommitted rows by node: each level of a tree adds its own, and the next one sees its ancestors among them. Where
/// the root was not added, its row is committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct UncommittedRows {
    rows: PooledVec<Option<usize>>,
    count: usize,
}

impl UncommittedRows {
    /// Adds a row for each of `nodes`, whose ancestors below the root have theirs, and says what the new rows see.
    pub fn add(&mut self, tree: &TokenTree, nodes: &[usize]) -> AttentionMask {
        let first = self.count;
        if self.rows.len() < tree.len() {
            self.rows.resize(tree.len(), None);
        }
        nodes.iter().enumerate().for_each(|(i, &node)| self.rows[node] = Some(first + i));
        self.count += nodes.len();
        let row = |node: &usize| self.rows[*node];
        AttentionMask::after(
            first,
            nodes.iter().map(|&node| tree.path(node).iter().filter_map(row).collect::<PooledVec<_>>()),
        )
    }
}
