//! Grows a tree best-first within a budget.

use super::OwnTree;
use crate::tree::{
    BuildError, Candidate, CandidateRows, CandidateSource, DraftTree, MAX_RANK, TreeBuilder, TreeKind,
    builder::expand_level, value::most_valuable,
};
use crate::{PooledVec, Token};

impl TreeBuilder for OwnTree {
    fn max_nodes(&self) -> usize {
        self.nodes
    }

    fn max_depth(&self) -> usize {
        self.depth.min(self.nodes - 1)
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Own(*self)
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let room = self.nodes - 1;
        let mut growth =
            Growth { drafted: DraftTree::root(root), values: PooledVec::of(0.0, 1), level: PooledVec::of(0, 1) };
        for depth in 0..self.max_depth() {
            let width = (room - depth).min(MAX_RANK + 1);
            let widths = PooledVec::of(width, growth.level.len());
            let rows = expand_level(source, growth.drafted.tree(), &growth.level, &widths)?;
            growth.take(&rows, room);
        }
        let mut kept = most_valuable(1..growth.values.len(), &growth.values, room);
        kept.sort_unstable();
        Ok(growth.drafted.keep(&kept))
    }
}

/// A tree under construction.
struct Growth {
    drafted: DraftTree,
    /// Logarithms of path probabilities, by node.
    values: PooledVec<f64>,
    /// The nodes of the last level, most probable first.
    level: PooledVec<usize>,
}

impl Growth {
    /// Adds those of a level's candidates that are among the `room` most probable drafts so far. Values never grow
    /// along a path, so a candidate that is left out here has no descendant in the final tree.
    fn take(&mut self, rows: &CandidateRows, room: usize) {
        let start = self.values.len();
        let (mut parents, mut candidates) = (PooledVec::new(), PooledVec::<Candidate>::new());
        for (&parent, row) in self.level.iter().zip(rows.iter()) {
            for &candidate in row {
                parents.push(parent);
                candidates.push(candidate);
                let value = self.values[parent] + candidate.probability.ln();
                self.values.push(value);
            }
        }
        let mut taken = most_valuable(1..self.values.len(), &self.values, room);
        taken.retain(|&number| number >= start);
        taken.sort_unstable();
        for (index, &number) in taken.iter().enumerate() {
            // Never overwrites one that is still to be read: numbers grow faster than indices.
            self.values[start + index] = self.values[number];
            self.drafted.push(parents[number - start], candidates[number - start]);
        }
        self.values.truncate(start + taken.len());
        self.level = most_valuable(start..self.values.len(), &self.values, taken.len());
    }
}
