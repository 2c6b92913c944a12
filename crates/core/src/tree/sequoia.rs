//! Sequoia: the optimal tree under positional acceptance, and the best tree for a machine.

use super::{MAX_DEPTH, MAX_NODES, MAX_RANK, RankPath, ShapeError, TreeShape, shape};

/// Optimal trees of every size and height (Sequoia's dynamic program).
///
/// Under positional acceptance the `k`-th child of an accepted node is accepted with probability `p_k`, wherever the
/// node is. The expected number of tokens per step (bonus included) of the best tree of exactly `n` nodes on at most
/// `D` levels, the root counted in both, is
///
/// `T(n, D) = 1 + max Σ_i p_i·T(n_i, D-1)` over the sizes `n_1 + … + n_k = n - 1` of its children's subtrees,
///
/// with `T(1, D) = 1`. Children come in order: there is a `k`-th only if there is a `(k-1)`-th. The best sizes are
/// found one child at a time, so the table costs `O(levels · children · nodes²)`.
#[derive(Clone, Debug, PartialEq)]
pub struct SequoiaTable {
    acceptance: Vec<f64>,
    max_nodes: usize,
    /// By levels, from 1.
    levels: Vec<Level>,
}

/// The optima for one number of levels.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    /// `T(n, D)` by `n - 1`; negative infinity where no such tree exists.
    tokens: Vec<f64>,
    /// Children of the root of an optimal tree, by `n - 1`.
    children: Vec<usize>,
    /// `last_child[k-1][m]`: how many of `m` nodes the last of `k` children and its descendants get.
    last_child: Vec<Vec<usize>>,
}

/// Why there is no such tree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SequoiaError {
    /// A positional acceptance is no probability.
    #[error("the acceptance of child {child} is {value}; it must lie in [0, 1]")]
    Acceptance {
        /// Child, from 0.
        child: usize,
        /// The value.
        value: f64,
    },
    /// More children than a node may have.
    #[error("{children} positional acceptances are too many: a node has at most {} children", MAX_RANK + 1)]
    TooManyChildren {
        /// Number of acceptances.
        children: usize,
    },
    /// The size is 0 or too large.
    #[error("trees of up to {nodes} nodes were asked for; the size, the root included, goes from 1 to {MAX_NODES}")]
    Nodes {
        /// Nodes with the root.
        nodes: usize,
    },
    /// The number of levels is 0 or too large.
    #[error("trees of up to {levels} levels were asked for; levels, the root's included, are 1 to {}", MAX_DEPTH + 1)]
    Levels {
        /// Levels with the root's.
        levels: usize,
    },
    /// No tree has so many nodes on so few levels.
    #[error("no tree of {nodes} nodes fits on {levels} levels within the table")]
    NoSuchTree {
        /// Nodes with the root.
        nodes: usize,
        /// Levels with the root's.
        levels: usize,
    },
    /// The tree has a child for which no acceptance is given.
    #[error("the acceptance of the tree's node {path:?} is not known")]
    Unmeasured {
        /// The node.
        path: RankPath,
    },
    /// The machine was not measured.
    #[error("no step time is given; at least that of a lone root is needed")]
    NoStepTimes,
    /// A time is no positive number.
    #[error("the step time of a tree of {nodes} nodes is {time}; it must be positive")]
    StepTime {
        /// Nodes with the root.
        nodes: usize,
        /// The time.
        time: f64,
    },
    /// The time of a draft level is negative or no number.
    #[error("the time of one draft level is {0}; it must be 0 or more")]
    LevelTime(f64),
    /// The nodes do not make a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The best tree for a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardwareChoice {
    /// Nodes, the root included.
    pub nodes: usize,
    /// Levels, the root's included.
    pub levels: usize,
    /// Expected tokens per step, the bonus token included.
    pub expected_tokens: f64,
    /// Expected speed relative to plain decoding.
    pub speedup: f64,
}

impl SequoiaTable {
    /// The table for trees of up to `max_nodes` nodes on up to `max_levels` levels, the root counted in both.
    /// `acceptance[k]` is the probability that an accepted node's child `k` (from 0) is accepted; as children exclude
    /// each other, these sum to at most 1.
    ///
    /// # Errors
    /// If an acceptance lies outside `[0, 1]`, or a size is 0 or too large.
    pub fn new(acceptance: &[f64], max_nodes: usize, max_levels: usize) -> Result<Self, SequoiaError> {
        check_acceptance(acceptance)?;
        if !(1..=MAX_NODES).contains(&max_nodes) {
            return Err(SequoiaError::Nodes { nodes: max_nodes });
        }
        if !(1..=MAX_DEPTH + 1).contains(&max_levels) {
            return Err(SequoiaError::Levels { levels: max_levels });
        }
        let mut levels = vec![Level::lone_root(max_nodes)];
        // A tree of n nodes has at most n levels, so further ones change nothing.
        while levels.len() < max_levels.min(max_nodes) {
            levels.push(levels[levels.len() - 1].one_more(acceptance));
        }
        levels.resize(max_levels, levels[levels.len() - 1].clone());
        Ok(Self { acceptance: acceptance.to_vec(), max_nodes, levels })
    }

    /// The largest size in the table, the root included.
    pub fn max_nodes(&self) -> usize {
        self.max_nodes
    }

    /// The most levels in the table, the root's included.
    pub fn max_levels(&self) -> usize {
        self.levels.len()
    }

    /// `T(nodes, levels)`: the expected tokens per step of the best tree of exactly `nodes` nodes on at most `levels`
    /// levels; `None` if there is no such tree or it lies outside the table.
    pub fn expected_tokens(&self, nodes: usize, levels: usize) -> Option<f64> {
        let level = self.levels.get(levels.checked_sub(1)?)?;
        level.tokens.get(nodes.checked_sub(1)?).copied().filter(|tokens| tokens.is_finite())
    }

    /// An optimal tree of exactly `nodes` nodes on at most `levels` levels. Among equals, roots (of subtrees, too) with
    /// fewer children and smaller later children win.
    ///
    /// # Errors
    /// If there is no such tree or it lies outside the table.
    pub fn shape(&self, nodes: usize, levels: usize) -> Result<TreeShape, SequoiaError> {
        if self.expected_tokens(nodes, levels).is_none() {
            return Err(SequoiaError::NoSuchTree { nodes, levels });
        }
        let mut paths: Vec<RankPath> = Vec::with_capacity(nodes - 1);
        let mut open = vec![(RankPath::new(), nodes)];
        while let Some((path, nodes)) = open.pop() {
            let level = &self.levels[levels - 1 - path.len()];
            let mut rest = nodes - 1;
            for child in (0..level.children[nodes - 1]).rev() {
                let size = level.last_child[child][rest];
                rest -= size;
                let child = [&path[..], &[child]].concat();
                paths.push(child.clone());
                open.push((child, size));
            }
        }
        Ok(TreeShape::new(paths)?)
    }

    /// The tree with the greatest expected speedup on a machine:
    /// `max over n, D of T(n, D)·t(1) / (t(n) + (D-1)·c)`, where `step_times[n-1]` is `t(n)`, the time of a
    /// verification step of `n` nodes, and `draft_level_time` is `c`, the time of drafting one level, in the same
    /// unit. Sizes beyond `step_times` or beyond the table are not considered. Ties go to fewer nodes, then to fewer
    /// levels; a lone root (plain decoding, speedup 1) always takes part.
    ///
    /// # Errors
    /// If there are no step times, or a time is negative, zero (step times only) or no number.
    pub fn choose(&self, step_times: &[f64], draft_level_time: f64) -> Result<HardwareChoice, SequoiaError> {
        check_times(step_times, draft_level_time)?;
        let mut best = HardwareChoice { nodes: 1, levels: 1, expected_tokens: 1.0, speedup: 1.0 };
        for (index, &step_time) in step_times.iter().enumerate().take(self.max_nodes) {
            for levels in 1..=self.levels.len() {
                let nodes = index + 1;
                let Some(expected_tokens) = self.expected_tokens(nodes, levels) else { continue };
                let time = step_time + (levels - 1) as f64 * draft_level_time;
                let speedup = expected_tokens * step_times[0] / time;
                if speedup > best.speedup {
                    best = HardwareChoice { nodes, levels, expected_tokens, speedup };
                }
            }
        }
        Ok(best)
    }

    /// The positional acceptances the table was made for.
    pub fn acceptance(&self) -> &[f64] {
        &self.acceptance
    }
}

/// The expected tokens per step (bonus included) of any tree under positional acceptance: `1 + Σ over nodes Π p_rank`.
///
/// # Errors
/// If an acceptance lies outside `[0, 1]`, or the tree has a rank without one.
pub fn expected_tokens(shape: &TreeShape, acceptance: &[f64]) -> Result<f64, SequoiaError> {
    check_acceptance(acceptance)?;
    let drafts = shape::expected_accepted(shape, |_, rank| acceptance.get(rank).copied());
    drafts.map(|drafts| 1.0 + drafts).map_err(|path| SequoiaError::Unmeasured { path })
}

impl Level {
    /// One level: only the lone root.
    fn lone_root(max_nodes: usize) -> Self {
        let mut tokens = vec![f64::NEG_INFINITY; max_nodes];
        tokens[0] = 1.0;
        Self { tokens, children: vec![0; max_nodes], last_child: Vec::new() }
    }

    /// The optima for one level more than `self` has.
    fn one_more(&self, acceptance: &[f64]) -> Self {
        let max_nodes = self.tokens.len();
        let mut more = Self::lone_root(max_nodes);
        // By number of nodes: the best sum over the children so far. No children, no nodes.
        let mut forest = vec![f64::NEG_INFINITY; max_nodes];
        forest[0] = 0.0;
        for (child, &probability) in acceptance.iter().enumerate().take(max_nodes - 1) {
            let (next, last_child) = self.add_child(&forest, probability);
            for (size, &sum) in next.iter().enumerate() {
                if 1.0 + sum > more.tokens[size] {
                    more.tokens[size] = 1.0 + sum;
                    more.children[size] = child + 1;
                }
            }
            forest = next;
            more.last_child.push(last_child);
        }
        more
    }

    /// Adds a child, accepted with `probability` and with a subtree of at least one node, to the best forests; returns
    /// the best forests with it and the size of its subtree in each.
    fn add_child(&self, forest: &[f64], probability: f64) -> (Vec<f64>, Vec<usize>) {
        let mut next = vec![f64::NEG_INFINITY; forest.len()];
        let mut sizes = vec![0; forest.len()];
        for (before, &sum) in forest.iter().enumerate().filter(|(_, sum)| sum.is_finite()) {
            for (size, &tokens) in (1..forest.len() - before).zip(&self.tokens).filter(|(_, tokens)| tokens.is_finite())
            {
                let value = sum + probability * tokens;
                if value > next[before + size] {
                    next[before + size] = value;
                    sizes[before + size] = size;
                }
            }
        }
        (next, sizes)
    }
}

fn check_acceptance(acceptance: &[f64]) -> Result<(), SequoiaError> {
    if acceptance.len() > MAX_RANK + 1 {
        return Err(SequoiaError::TooManyChildren { children: acceptance.len() });
    }
    match acceptance.iter().position(|value| !(0.0..=1.0).contains(value)) {
        Some(child) => Err(SequoiaError::Acceptance { child, value: acceptance[child] }),
        None => Ok(()),
    }
}

fn check_times(step_times: &[f64], draft_level_time: f64) -> Result<(), SequoiaError> {
    if step_times.is_empty() {
        return Err(SequoiaError::NoStepTimes);
    }
    if let Some(index) = step_times.iter().position(|time| !(time.is_finite() && *time > 0.0)) {
        return Err(SequoiaError::StepTime { nodes: index + 1, time: step_times[index] });
    }
    if !(draft_level_time.is_finite() && draft_level_time >= 0.0) {
        return Err(SequoiaError::LevelTime(draft_level_time));
    }
    Ok(())
}
