//! Best-first growth, level by level.

use super::{BuildError, Candidate, CandidateRows, CandidateSource, DraftTree};
use super::{builder::expand_level, value::most_valuable};
use crate::{PooledVec, Token};

/// The drafts of the greatest path probabilities among all paths that a source names.
pub(super) struct Growth {
    drafted: DraftTree,
    /// Logarithms of path probabilities, by node.
    values: PooledVec<f64>,
    /// The nodes of the last level, most probable first.
    level: PooledVec<usize>,
}

impl Growth {
    /// Grows `room` drafts at most, of paths of at most `depth` drafts, with at most `width` candidates after a node and
    /// without drafts whose logarithm of the path probability is below `floor`. The source is asked once per level, for as many candidates as there is room for below a node of it.
    ///
    /// # Errors
    /// When the drafter fails or answers for the wrong number of nodes.
    pub fn grown(
        root: Token,
        source: &mut dyn CandidateSource,
        (room, depth, width): (usize, usize, usize),
        floor: f64,
    ) -> Result<Self, BuildError> {
        let mut growth =
            Self { drafted: DraftTree::root(root), values: PooledVec::of(0.0, 1), level: PooledVec::of(0, 1) };
        for depth in 0..depth.min(room) {
            if growth.level.is_empty() {
                break;
            }
            let widths = PooledVec::of(width.min(room - depth), growth.level.len());
            let rows = expand_level(source, growth.drafted.tree(), &growth.level, &widths)?;
            growth.take(&rows, room, floor);
        }
        Ok(growth)
    }

    /// The `room` drafts of the greatest path probability, most probable first, and the logarithms of these.
    pub fn best(&self, room: usize) -> (PooledVec<usize>, &[f64]) {
        (most_valuable(1..self.values.len(), &self.values, room), &self.values)
    }

    /// The tree of some drafts, in the order in which they were drafted.
    pub fn keep(&self, mut kept: PooledVec<usize>) -> DraftTree {
        kept.sort_unstable();
        self.drafted.keep(&kept)
    }

    /// Adds those of a level's candidates that are among the `room` most probable drafts so far. Values never grow
    /// along a path, so a candidate that is left out here has no descendant in the final tree.
    fn take(&mut self, rows: &CandidateRows, room: usize, floor: f64) {
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
        taken.retain(|&number| number >= start && self.values[number] >= floor);
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
