//! Calibration of any drafter: how often each node of a tree is accepted, measured by decoding with a wide one.
//!
//! Heads that draft independently can be measured at every position of a text ([`crate::calibrate`]). A drafter whose
//! later guesses depend on its earlier ones is measured where it is used: a wide tree is decoded with, and the share of
//! steps in which a node is on the accepted path is that node's value. Values never grow along a path, so the `n` most
//! valuable nodes are the best tree of that size.

use crate::BenchError;
use crate::calibrate::{Accuracies, Choice};
use crate::measure::{BenchPrompt, Comparison};
use crate::observed::Observed;
use crate::step_times::StepTime;
use gorgon_core::accept::Verdict;
use gorgon_core::tree::calibrated::{Calibration, CalibrationError, HeadAccuracies, calibrate};
use gorgon_core::tree::sequoia::SequoiaTable;
use gorgon_core::tree::{FixedTree, RankPath, TokenTree, TreeShape};
use std::collections::BTreeMap;

/// Nodes of the trees that are decoded with.
const NODES: usize = 64;
/// Positional acceptance of a middling drafter, from which the first tree is made.
const PRIOR: [f64; 8] = [0.6, 0.15, 0.08, 0.05, 0.03, 0.02, 0.015, 0.01];

/// Acceptances counted over some steps.
#[derive(Clone, Debug, Default)]
struct Seen {
    steps: usize,
    /// Accepted nodes by their path of ranks.
    accepted: BTreeMap<RankPath, usize>,
    /// Accepted nodes that had children, by depth.
    parents: BTreeMap<usize, usize>,
}

/// The nodes of a tree by their value.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Nodes that were ever accepted, the most valuable first; each with the share of steps in which it was.
    pub nodes: Vec<(RankPath, f64)>,
    /// Acceptance rates by depth and rank, given that the parent was accepted.
    pub accuracies: Accuracies,
}

impl Seen {
    /// Adds a step with drafts.
    fn count(&mut self, tree: &TokenTree, verdict: &Verdict) {
        self.steps += 1;
        let mut path = RankPath::new();
        for &node in &verdict.path {
            if let Some(parent) = tree.parent(node) {
                path.extend(tree.children(parent).position(|child| child == node));
                *self.accepted.entry(path.clone()).or_default() += 1;
            }
            if tree.children(node).next().is_some() {
                *self.parents.entry(path.len()).or_default() += 1;
            }
        }
    }

    /// `P(the guess of rank r is right | its parent was accepted)`, by depth and rank; ranks in falling order.
    fn conditional(&self) -> Result<HeadAccuracies, CalibrationError> {
        let deepest = self.accepted.keys().map(Vec::len).max().unwrap_or(0);
        let row = |depth: usize| {
            let mut hits: Vec<usize> = vec![];
            for (path, n) in self.accepted.iter().filter(|(path, _)| path.len() == depth) {
                let rank = path[depth - 1];
                hits.resize(hits.len().max(rank + 1), 0);
                hits[rank] += n;
            }
            // Chance can put a later guess before an earlier one; a tree with a gap in its ranks would make no sense.
            hits.sort_unstable_by(|a, b| b.cmp(a));
            let parents = self.parents.get(&(depth - 1)).copied().unwrap_or(0).max(1);
            hits.iter().map(|&n| (n as f64 / parents as f64).min(1.0)).collect()
        };
        HeadAccuracies::new((1..=deepest).map(row).collect())
    }

    /// The nodes, best first; ties go to the shorter path, then to the lower ranks.
    fn nodes(&self) -> Vec<(RankPath, f64)> {
        let share = |n: usize| n as f64 / self.steps.max(1) as f64;
        let mut nodes: Vec<(RankPath, f64)> = self.accepted.iter().map(|(path, &n)| (path.clone(), share(n))).collect();
        nodes.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.len().cmp(&b.len())).then_with(|| a.cmp(b)));
        nodes
    }

    fn accuracies(&self) -> Result<Accuracies, CalibrationError> {
        let heads = self.conditional()?;
        let parents: usize = self.parents.values().sum();
        let mut children: Vec<usize> = vec![];
        for (path, n) in &self.accepted {
            if let Some(&rank) = path.last() {
                children.resize(children.len().max(rank + 1), 0);
                children[rank] += n;
            }
        }
        let children = children.iter().map(|&n| n as f64 / parents.max(1) as f64).collect();
        let first = |depth: usize| self.accepted.get(&vec![0; depth]).copied().unwrap_or(0);
        let alpha = |depth: usize| {
            let before = if depth == 1 { self.steps } else { first(depth - 1) };
            first(depth) as f64 / before.max(1) as f64
        };
        let chain = (1..=heads.heads().len()).map(alpha).collect();
        Ok(Accuracies { heads, positions: self.steps, children, chain })
    }
}

fn watch(comparison: &mut Comparison<'_>, shape: TreeShape, prompts: &[BenchPrompt]) -> Result<Seen, BenchError> {
    let builder = FixedTree::new(shape);
    let rule = Observed::new(comparison.rule, Seen::count);
    let mut with = Comparison {
        recorded: None,
        decoder: comparison.decoder,
        drafter: &mut *comparison.drafter,
        builder: &builder,
        rule: &rule,
        limits: comparison.limits.clone(),
        seed: comparison.seed,
    };
    let longest = prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0);
    let mut target = with.target(longest);
    for prompt in prompts {
        with.drafted(&mut target, &prompt.ids)?;
    }
    Ok(rule.into_counts())
}

/// Decodes the prompts twice: with a tree for a middling drafter, then with the one that fits what was seen, whose
/// nodes' shares are the result. `deepest` bounds the depth.
///
/// # Errors
/// When the model or the drafter fails, or no step was taken.
pub fn probe(comparison: &mut Comparison<'_>, prompts: &[BenchPrompt], deepest: usize) -> Result<Probed, BenchError> {
    let wrong = |error: &dyn std::fmt::Display| BenchError::Empty(error.to_string());
    let prior = SequoiaTable::new(&PRIOR, NODES, deepest + 1).map_err(|error| wrong(&error))?;
    let shape = prior.shape(NODES, deepest + 1).map_err(|error| wrong(&error))?;
    let first = watch(comparison, shape, prompts)?;
    if first.steps == 0 {
        return Err(BenchError::Empty("the answers are too short to measure drafts on".into()));
    }
    let second = match calibrate(&first.conditional()?, NODES)? {
        Calibration { order, .. } if order.is_empty() => first,
        Calibration { shape, .. } => watch(comparison, shape, prompts)?,
    };
    Ok(Probed { nodes: second.nodes(), accuracies: second.accuracies()? })
}

impl Probed {
    /// The nodes as an order in which a tree can grow.
    ///
    /// # Errors
    /// When they make no shape.
    pub fn calibration(&self) -> Result<Calibration, BenchError> {
        let order: Vec<RankPath> = self.nodes.iter().take(NODES - 1).map(|(path, _)| path.clone()).collect();
        let shape = TreeShape::new(order.clone()).map_err(CalibrationError::from)?;
        Ok(Calibration { order, shape, expected_accepted: self.nodes.iter().map(|(_, value)| value).sum() })
    }

    /// The tree with the most expected tokens per second, over all sizes that were timed and all depths.
    ///
    /// A step lasts what verifying its nodes lasts and what drafting its levels lasts: measured steps without their
    /// drafting, by the number of nodes, and the time of a level, by the deepest tree that was timed. Expected tokens
    /// are `1 + Σ values`. A gain that lies within the spread of the measured times counts for nothing.
    ///
    /// # Errors
    /// When a shape cannot be.
    pub fn choose(&self, times: &[StepTime]) -> Result<Choice, BenchError> {
        let mut best = Choice::plain()?;
        let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::INFINITY, |time| time.seconds);
        let depth = |n: usize| self.nodes.iter().take(n - 1).map(|(path, _)| path.len()).max().unwrap_or(0);
        let drafted = times.iter().filter(|time| time.nodes > 1 && depth(time.nodes) > 0);
        let level = drafted.clone().map(|time| time.draft_seconds / depth(time.nodes) as f64).fold(0.0, f64::max);
        for time in drafted {
            for levels in 1..=depth(time.nodes) {
                let within = self.nodes.iter().filter(|(path, _)| path.len() <= levels).take(time.nodes - 1);
                let (paths, values): (Vec<RankPath>, Vec<f64>) = within.cloned().unzip();
                let expected_tokens = 1.0 + values.iter().sum::<f64>();
                let draft = if levels == depth(time.nodes) { time.draft_seconds } else { level * levels as f64 };
                let expected_speedup = expected_tokens * plain / (time.seconds - time.draft_seconds + draft);
                let shape = TreeShape::new(paths).map_err(CalibrationError::from)?;
                best.weigh(shape, expected_tokens, expected_speedup, time);
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests;
