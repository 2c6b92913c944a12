//! Ending paths after an unsure draft.
//!
//! The unsure draft itself stays: whether a position is drafted is decided by the drafts before it, so no rule is
//! biased.

use crate::levels::{LevelNetwork, Levels};
use gorgon_core::PooledVec;
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree};

/// A network as a source of candidates, whose paths end after a draft that is less likely than a threshold.
pub(crate) struct StopAfter<'a, N> {
    levels: Levels<'a, N>,
    threshold: f64,
    /// Nodes whose most likely child is less likely than the threshold.
    unsure: PooledVec<usize>,
}

impl<'a, N: LevelNetwork> StopAfter<'a, N> {
    /// `levels` has to know probabilities ([`Levels::with_probabilities`]).
    pub fn new(levels: Levels<'a, N>, threshold: f64) -> Self {
        Self { levels, threshold, unsure: PooledVec::new() }
    }

    /// The levels, once the tree is built.
    pub fn into_levels(self) -> Levels<'a, N> {
        self.levels
    }
}

impl<N: LevelNetwork> CandidateSource for StopAfter<'_, N> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let ended = |node: usize| tree.parent(node).is_some_and(|parent| self.unsure.contains(&parent));
        let asked: PooledVec<usize> = (0..nodes.len()).filter(|&i| !ended(nodes[i])).collect();
        if asked.is_empty() {
            return Ok(nodes.iter().map(|_| []).collect());
        }
        let some_nodes: PooledVec<usize> = asked.iter().map(|&i| nodes[i]).collect();
        let some_widths: PooledVec<usize> = asked.iter().map(|&i| widths[i]).collect();
        let found = self.levels.expand(tree, &some_nodes, &some_widths)?;
        let mut rows = CandidateRows::default();
        let mut next = 0;
        for (i, &node) in nodes.iter().enumerate() {
            if asked.get(next) != Some(&i) {
                rows.push([]);
                continue;
            }
            let row = found.row(next);
            next += 1;
            if row.first().is_none_or(|first| first.probability < self.threshold) {
                self.unsure.push(node);
            }
            rows.push(row.iter().copied());
        }
        Ok(rows)
    }
}
