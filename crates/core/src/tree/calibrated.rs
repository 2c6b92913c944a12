//! Trees from measured accuracies: Medusa's greedy construction.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{MAX_DEPTH, MAX_NODES, MAX_RANK, RankPath, ShapeError, TreeShape, shape};

/// How often each guess of each head is right on a calibration set: `a_k^(i)`, the accuracy of head `k`'s `i`-th guess,
/// for heads and guesses counted from 0. The guesses of one head exclude each other, so a row sums to at most 1.
///
/// # Shapes
/// `[heads][ranks]`; rows may differ in length. As JSON, a list of lists of numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>", into = "Vec<Vec<f64>>")]
pub struct HeadAccuracies(Vec<Vec<f64>>);

/// Why no tree can be made or judged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// An accuracy is no probability.
    #[error("the accuracy of head {head}'s guess {rank} is {value}; it must lie in [0, 1]")]
    Accuracy {
        /// Head, from 0.
        head: usize,
        /// Guess, from 0.
        rank: usize,
        /// The value.
        value: f64,
    },
    /// More heads than a tree may have levels.
    #[error("{heads} heads are too many: at most {MAX_DEPTH} make a tree")]
    TooManyHeads {
        /// Number of heads.
        heads: usize,
    },
    /// More guesses than a node may have children.
    #[error("head {head} has {ranks} guesses; at most {} make a tree", MAX_RANK + 1)]
    TooManyRanks {
        /// Head, from 0.
        head: usize,
        /// Number of guesses.
        ranks: usize,
    },
    /// The budget does not cover the root, or is too large.
    #[error("a budget of {nodes} nodes makes no tree: from 1 (a lone root) to {MAX_NODES} are possible")]
    Budget {
        /// Nodes with the root.
        nodes: usize,
    },
    /// The tree holds a guess whose accuracy is unknown.
    #[error("the accuracy of the last guess of the tree's node {path:?} was not measured")]
    Unmeasured {
        /// The node.
        path: RankPath,
    },
    /// The nodes do not make a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl HeadAccuracies {
    /// Accuracies by head and rank.
    ///
    /// # Errors
    /// If a value lies outside `[0, 1]` or there are more heads or ranks than a tree can use.
    pub fn new(accuracies: Vec<Vec<f64>>) -> Result<Self, CalibrationError> {
        if accuracies.len() > MAX_DEPTH {
            return Err(CalibrationError::TooManyHeads { heads: accuracies.len() });
        }
        for (head, row) in accuracies.iter().enumerate() {
            if row.len() > MAX_RANK + 1 {
                return Err(CalibrationError::TooManyRanks { head, ranks: row.len() });
            }
            if let Some(rank) = row.iter().position(|value| !(0.0..=1.0).contains(value)) {
                return Err(CalibrationError::Accuracy { head, rank, value: row[rank] });
            }
        }
        Ok(Self(accuracies))
    }

    /// The rows, one per head.
    pub fn heads(&self) -> &[Vec<f64>] {
        &self.0
    }

    /// The accuracy of one guess, if it was measured.
    pub fn get(&self, head: usize, rank: usize) -> Option<f64> {
        self.0.get(head)?.get(rank).copied()
    }
}

/// A tree made from accuracies.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The nodes in the order in which they were added. The first `n - 1` are the calibrated tree of `n` nodes.
    pub order: Vec<RankPath>,
    /// The tree.
    pub shape: TreeShape,
    /// Expected number of accepted drafts per step, the bonus token not counted: the sum of the nodes' values.
    pub expected_accepted: f64,
}

/// The tree of at most `max_nodes` nodes (root included) with the greatest expected number of accepted drafts.
///
/// Medusa's greedy construction: the value of a node is the product of the accuracies along its path,
/// `Π_k a_k^(rank_k)`; starting from the root, the most valuable node whose parent is in the tree is added until the
/// budget is spent or no measured guess is left. Heads being taken as independent, the value is the probability that
/// the node is accepted, and since values never grow along a path the result is optimal for every size on the way.
///
/// Ties go to the shorter path, then to the lexicographically smaller one.
///
/// # Errors
/// If the budget is 0 or above [`MAX_NODES`].
pub fn calibrate(accuracies: &HeadAccuracies, max_nodes: usize) -> Result<Calibration, CalibrationError> {
    if !(1..=MAX_NODES).contains(&max_nodes) {
        return Err(CalibrationError::Budget { nodes: max_nodes });
    }
    let mut order = Vec::new();
    let mut open = BinaryHeap::new();
    let mut next = Some(Guess { value: 1.0, path: Vec::new() });
    while order.len() + 1 < max_nodes
        && let Some(parent) = next
    {
        let head = accuracies.heads().get(parent.path.len());
        for (rank, accuracy) in head.into_iter().flatten().enumerate() {
            open.push(Guess { value: parent.value * accuracy, path: [&parent.path[..], &[rank]].concat() });
        }
        next = open.pop();
        order.extend(next.iter().map(|guess| guess.path.clone()));
    }
    let shape = TreeShape::new(order.clone())?;
    let expected_accepted = expected_accepted(&shape, accuracies)?;
    Ok(Calibration { order, shape, expected_accepted })
}

/// The expected number of accepted drafts per step of a tree, `Σ over nodes Π_k a_k^(rank_k)`, the bonus token not
/// counted. The expected number of emitted tokens is one more.
///
/// # Errors
/// If the tree holds a guess that was not measured.
pub fn expected_accepted(shape: &TreeShape, accuracies: &HeadAccuracies) -> Result<f64, CalibrationError> {
    let expected = shape::expected_accepted(shape, |head, rank| accuracies.get(head, rank));
    expected.map_err(|path| CalibrationError::Unmeasured { path })
}

/// A node that may be added next. The greatest is the best.
struct Guess {
    value: f64,
    path: RankPath,
}

impl Ord for Guess {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = self.value.total_cmp(&other.value);
        by_value.then_with(|| other.path.len().cmp(&self.path.len())).then_with(|| other.path.cmp(&self.path))
    }
}

impl PartialOrd for Guess {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Guess {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Guess {}

impl TryFrom<Vec<Vec<f64>>> for HeadAccuracies {
    type Error = CalibrationError;

    fn try_from(accuracies: Vec<Vec<f64>>) -> Result<Self, CalibrationError> {
        Self::new(accuracies)
    }
}

impl From<HeadAccuracies> for Vec<Vec<f64>> {
    fn from(accuracies: HeadAccuracies) -> Self {
        accuracies.0
    }
}
