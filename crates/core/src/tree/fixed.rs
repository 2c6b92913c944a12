//! Trees of a shape known beforehand.

use super::{BuildError, CandidateSource, DraftTree, TreeBuilder, TreeKind, TreeShape, builder::expand_level};
use crate::{PooledVec, Token};

/// Fills a [`TreeShape`] with tokens: rank `r` under a node is the drafter's `r`-th candidate there. Published lists,
/// calibrated trees and Sequoia's optima are all built by this.
///
/// Where the drafter has fewer candidates than the shape asks for, the missing nodes and all below them are left out.
/// When none is missing, node `i` of the tree is node `i` of the shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedTree {
    shape: TreeShape,
    /// Candidates to ask for by node: the greatest rank among its children and one, 0 for a leaf.
    widths: Vec<usize>,
    /// The number of nodes of depth at most `d`, by `d`.
    level_ends: Vec<usize>,
    in_order: bool,
}

impl FixedTree {
    /// A builder for a shape.
    pub fn new(shape: TreeShape) -> Self {
        let (mut widths, mut children) = (vec![0; shape.len()], vec![0; shape.len()]);
        let mut level_ends = vec![1; shape.max_depth() + 1];
        for node in 1..shape.len() {
            let (path, parent) = (shape.path(node), shape.parents()[node]);
            widths[parent] = widths[parent].max(path[path.len() - 1] + 1);
            children[parent] += 1;
            // Canonical order goes level by level, so the last node of a level sets where it ends.
            level_ends[path.len()] = node + 1;
        }
        // Ranks are distinct, so there are as many as the greatest one says if none is skipped.
        let in_order = children == widths;
        Self { shape, widths, level_ends, in_order }
    }

    /// The shape that is filled.
    pub fn shape(&self) -> &TreeShape {
        &self.shape
    }
}

impl TreeBuilder for FixedTree {
    fn max_nodes(&self) -> usize {
        self.shape.len()
    }

    fn max_depth(&self) -> usize {
        self.shape.max_depth()
    }

    /// True unless the shape skips a rank somewhere.
    fn takes_in_order(&self) -> bool {
        self.in_order
    }

    fn ranks_at(&self, depth: usize) -> Option<usize> {
        let start =
            depth.checked_sub(1).map_or(0, |above| self.level_ends.get(above).copied().unwrap_or(self.shape.len()));
        let end = self.level_ends.get(depth).copied().unwrap_or(self.shape.len());
        Some(self.widths[start..end].iter().copied().max().unwrap_or(0))
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Fixed(self.shape.clone())
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let mut drafted = DraftTree::root(root);
        // Where a node of the shape went; `None` if the drafter had no candidate for it.
        let mut placed: PooledVec<Option<usize>> = PooledVec::of(None, self.shape.len());
        placed[0] = Some(0);
        let mut above = 0..1;
        for ends in self.level_ends.windows(2) {
            let open: PooledVec<usize> =
                above.filter(|&node| placed[node].is_some() && self.widths[node] > 0).collect();
            let nodes: PooledVec<usize> = open.iter().filter_map(|&node| placed[node]).collect();
            let widths: PooledVec<usize> = open.iter().map(|&node| self.widths[node]).collect();
            let rows = expand_level(source, drafted.tree(), &nodes, &widths)?;
            for node in ends[0]..ends[1] {
                let (path, parent) = (self.shape.path(node), self.shape.parents()[node]);
                let row = open.binary_search(&parent).ok().map(|row| rows.row(row));
                let candidate = row.and_then(|row| row.get(path[path.len() - 1]));
                if let (Some(&candidate), Some(parent)) = (candidate, placed[parent]) {
                    placed[node] = Some(drafted.push(parent, candidate));
                }
            }
            above = ends[0]..ends[1];
        }
        Ok(drafted)
    }
}
