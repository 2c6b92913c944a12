//! The best tree that a drafter's rows allow.

use super::{
    BuildError, CandidateSource, DraftTree, MAX_DEPTH, MAX_NODES, OwnTree, TreeBuilder, TreeKind, growth::Growth,
};
use crate::{PooledVec, Token};

/// Candidates after a node.
const WIDTH: usize = 16;

/// The drafts of the greatest path probability, written `trellis:NODES,DEPTH`, or `trellis:NODES` for a depth of
/// [`TrellisTree::DEPTH`].
///
/// The value of a node is the product of the probabilities along its path, an estimate of the probability that it is
/// accepted. A child's value never exceeds its parent's, so the `n` drafts of the greatest value are a tree, and no
/// tree of as many drafts has a greater sum of values (DDTree, arXiv 2604.12989). A node has 16 children at most. The
/// source is asked once per level: about the nodes that are among the best so far, for no other node has descendants
/// among the best. In that, it differs from a [`DynamicTree`](super::DynamicTree), which expands a fixed number.
///
/// With step times, the number of nodes is chosen anew for each tree: it is the `n` of the greatest
/// `(1 + Σ values of the best n - 1 drafts) / cost(n)`, the expected tokens in the time of a plain step. A draft that is
/// worth less than the cheapest draft costs is not looked for.
///
/// Candidates must be a list, not samples: the best of several samples no longer follow the distribution they were
/// drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct TrellisTree {
    nodes: usize,
    depth: usize,
    /// How many plain steps a step of `n + 1` nodes lasts, by `n`; empty if the number of nodes is fixed.
    costs: Vec<f64>,
    /// Logarithm of the least value of a draft that can pay.
    floor: f64,
}

/// Sizes no trellis tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrellisError {
    /// The number of nodes is below 2 or above [`MAX_NODES`].
    #[error("a trellis tree has 2 to {MAX_NODES} nodes, its root included, not {0}")]
    Nodes(usize),
    /// The depth is 0 or above [`MAX_DEPTH`].
    #[error("a trellis tree is 1 to {MAX_DEPTH} drafts deep, not {0}")]
    Depth(usize),
}

impl TrellisTree {
    /// Drafts on a path unless told otherwise.
    pub const DEPTH: usize = 8;

    /// A tree of `nodes` nodes, the root included, with at most `depth` drafts on a path.
    ///
    /// # Errors
    /// If there is no room for a draft, or a size is absurdly large.
    pub fn new(nodes: usize, depth: usize) -> Result<Self, TrellisError> {
        if !(2..=MAX_NODES).contains(&nodes) {
            return Err(TrellisError::Nodes(nodes));
        }
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(TrellisError::Depth(depth));
        }
        Ok(Self { nodes, depth, costs: vec![], floor: f64::NEG_INFINITY })
    }

    /// Copy whose number of nodes follows from step times: `cost(n)` is how many plain steps a step of `n` nodes lasts.
    pub fn with_costs(self, cost: impl Fn(usize) -> f64) -> Self {
        let costs: Vec<f64> = (1..=self.nodes).map(cost).collect();
        // The cheapest draft: the first one, or the mean of the drafts after it.
        let beyond = costs.iter().enumerate().skip(2).map(|(drafts, cost)| (cost - costs[1]) / (drafts - 1) as f64);
        let cheapest = beyond.fold(costs[1] - costs[0], f64::min);
        let floor = cheapest.max(0.0).ln();
        Self { costs, floor, ..self }
    }

    /// The most nodes, the root included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The most drafts on a path.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The number of drafts that pays most, of drafts whose values fall.
    fn paying(&self, values: impl Iterator<Item = f64>) -> usize {
        let (mut expected, mut best) = (1.0, (0, self.costs.first().map_or(1.0, |cost| 1.0 / cost)));
        for (drafts, (value, cost)) in (1..).zip(values.zip(self.costs.iter().skip(1))) {
            expected += value;
            if expected / cost > best.1 {
                best = (drafts, expected / cost);
            }
        }
        best.0
    }
}

impl TreeBuilder for TrellisTree {
    fn max_nodes(&self) -> usize {
        self.nodes
    }

    fn max_depth(&self) -> usize {
        self.depth.min(self.nodes - 1)
    }

    fn kind(&self) -> TreeKind {
        // To a drafter that makes its tree itself, it is a budget.
        OwnTree::new(self.nodes, self.depth).map_or(TreeKind::Chain(self.depth), TreeKind::Own)
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let room = self.nodes - 1;
        let growth = Growth::grown(root, source, (room, self.max_depth(), WIDTH), self.floor)?;
        let (mut best, values): (PooledVec<usize>, &[f64]) = growth.best(room);
        if !self.costs.is_empty() {
            let drafts = self.paying(best.iter().map(|&node| values[node].exp()));
            best.truncate(drafts);
        }
        Ok(growth.keep(best))
    }
}

#[cfg(test)]
mod tests;
