//! The tree that decodes fastest: measured accuracies, measured step times.

use crate::measure::{BenchPrompt, Contest};
use crate::{BenchError, median};
use gorgon_core::Token;
use gorgon_core::tree::calibrated::{Calibration, HeadAccuracies, calibrate};
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_draft::medusa::MedusaModel;
use gorgon_model::target::Target;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Guesses of each head whose accuracy is measured.
const RANKS: usize = 10;

/// How often each head's i-th guess is right, and on how many positions that was measured.
#[derive(Clone, Debug)]
pub struct Accuracies {
    /// By head and rank.
    pub heads: HeadAccuracies,
    /// Positions.
    pub positions: usize,
    /// Positional acceptance `p_k`: how often the `k`-th guess after an accepted token is right, at any depth.
    pub children: Vec<f64>,
    /// `α` by depth: how often the first guess is right, given that those before it were.
    pub chain: Vec<f64>,
}

/// Counts of one measurement.
struct Hits {
    /// Right guesses by head and rank, and guesses by head.
    ranks: Vec<[usize; RANKS]>,
    guesses: Vec<usize>,
    /// Right guesses by rank after tokens that were themselves guessed, and guesses there.
    children: [usize; RANKS],
    parents: usize,
    /// Right first guesses after right first guesses, and guesses there, by head.
    chain: Vec<(usize, usize)>,
}

impl Hits {
    fn new(heads: usize) -> Self {
        Self {
            ranks: vec![[0; RANKS]; heads],
            guesses: vec![0; heads],
            children: [0; RANKS],
            parents: 0,
            chain: vec![(0, 0); heads],
        }
    }

    /// One position: at which rank each head has the right token, `None` beyond those that count.
    fn count(&mut self, ranks: impl Iterator<Item = Option<usize>>) {
        let (mut in_tree, mut in_chain) = (true, true);
        for (head, rank) in ranks.enumerate() {
            self.guesses[head] += 1;
            self.parents += usize::from(in_tree);
            self.chain[head].1 += usize::from(in_chain);
            if let Some(rank) = rank {
                self.ranks[head][rank] += 1;
                self.children[rank] += usize::from(in_tree);
                self.chain[head].0 += usize::from(in_chain && rank == 0);
            }
            in_tree &= rank.is_some();
            in_chain &= rank == Some(0);
        }
    }

    fn shares(&self, positions: usize) -> Result<Accuracies, BenchError> {
        let share = |hits: usize, of: usize| if of == 0 { 0.0 } else { hits as f64 / of as f64 };
        let row = |(hits, &of): (&[usize; RANKS], &usize)| hits.iter().map(|&n| share(n, of)).collect();
        let heads = HeadAccuracies::new(self.ranks.iter().zip(&self.guesses).map(row).collect())?;
        let children = self.children.iter().map(|&n| share(n, self.parents)).collect();
        let chain = self.chain.iter().map(|&(n, of)| share(n, of)).collect();
        Ok(Accuracies { heads, positions, children, chain })
    }
}

/// Measures the heads on texts that the model wrote: `(prompt and answer, length of the prompt)`.
///
/// # Errors
/// When the model fails, or there is nothing to measure on.
pub fn accuracies(
    target: &mut Target,
    model: &MedusaModel,
    texts: &[(Vec<Token>, usize)],
) -> Result<Accuracies, BenchError> {
    let heads = model.heads();
    let (mut hits, mut positions) = (Hits::new(heads), 0);
    for (ids, prompt) in texts {
        target.reset();
        let output = target.prefill(ids)?;
        // The state at the last prompt token is the first that heads are read at.
        for t in prompt.saturating_sub(1)..ids.len().saturating_sub(2) {
            let reach = heads.min(ids.len() - t - 2);
            let logits = model.logits(&output.hidden.clone().narrow(1, t, 1), reach);
            positions += 1;
            let rank = |(head, row): (usize, &[f32])| {
                let right = ids[t + head + 2] as usize;
                // Ties go to the lower token, as in the drafter's own lists.
                let above = |(token, &x): (usize, &f32)| x > row[right] || (x == row[right] && token < right);
                Some(row.iter().enumerate().filter(|&(token, x)| above((token, x))).count())
                    .filter(|&rank| rank < RANKS)
            };
            hits.count(logits.chunks_exact(model.vocab_size()).enumerate().map(rank));
        }
    }
    if positions == 0 {
        return Err(BenchError::Empty("the answers are too short to measure heads on".into()));
    }
    hits.shares(positions)
}

/// The time of a step by the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Nodes, the root included; 1 stands for plain decoding without a drafter.
    pub nodes: usize,
    /// Seconds: the median.
    pub seconds: f64,
    /// Seconds of these for drafting: the median.
    #[serde(default)]
    pub draft_seconds: f64,
}

/// Measures whole steps (draft, verify, accept, commit) of trees of growing size, and of plain decoding, interleaved.
///
/// # Errors
/// When the model or the drafter fails.
pub fn step_times(
    contest: &mut Contest<'_>,
    calibration: &Calibration,
    prompts: &[BenchPrompt],
    sizes: &[usize],
    rounds: usize,
) -> Result<Vec<StepTime>, BenchError> {
    let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    let trees: Vec<FixedTree> = sizes.iter().map(|&n| tree(calibration, n)).collect::<Result<_, _>>()?;
    let mut seconds = vec![(vec![], vec![]); sizes.len()];
    let biggest = calibration.order.len() + 1;
    let tokens = longest + contest.limits.max_new_tokens;
    let mut target = Target::with_trees(contest.decoder.clone(), tokens, biggest, contest.drafter.needs().taps);
    for round in 0..=rounds {
        for (i, tree) in trees.iter().enumerate() {
            let prompt = &prompts[(round + i) % prompts.len()].ids;
            let started = Instant::now();
            let generation = if sizes[i] == 1 {
                contest.plain(&mut target, prompt)?
            } else {
                let mut with = Contest {
                    recorded: None,
                    decoder: contest.decoder,
                    drafter: &mut *contest.drafter,
                    builder: tree,
                    rule: contest.rule,
                    limits: contest.limits.clone(),
                    seed: contest.seed,
                };
                with.drafted(&mut target, prompt)?
            };
            let steps = generation.accepted.len() as f64;
            // The first round warms up.
            if round > 0 && steps > 0.0 {
                seconds[i].0.push((started.elapsed() - generation.prefill_time).as_secs_f64() / steps);
                seconds[i].1.push(generation.times.draft.0.as_secs_f64() / steps);
            }
        }
    }
    let time = |(&nodes, (seconds, draft)): (&usize, (Vec<f64>, Vec<f64>))| {
        Some(StepTime { nodes, seconds: median(seconds)?, draft_seconds: median(draft)? })
    };
    Ok(sizes.iter().zip(seconds).filter_map(time).collect())
}

/// The first `nodes` nodes of a calibrated order.
fn tree(calibration: &Calibration, nodes: usize) -> Result<FixedTree, BenchError> {
    let paths = calibration.order.iter().take(nodes - 1).cloned().collect();
    let shape = TreeShape::new(paths).map_err(gorgon_core::tree::calibrated::CalibrationError::from)?;
    Ok(FixedTree::new(shape))
}

/// The tree that should decode fastest.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its shape; a lone root where no tree beats plain decoding.
    pub shape: TreeShape,
    /// Expected tokens per step.
    pub expected_tokens: f64,
    /// Expected speed-up over plain decoding.
    pub expected_speedup: f64,
}

/// The size with the most expected tokens per second, `(1 + Σ node values) / T(n)`, against `1 / T(plain)`.
///
/// # Errors
/// When a shape cannot be.
pub fn choose(
    accuracies: &HeadAccuracies,
    calibration: &Calibration,
    times: &[StepTime],
) -> Result<Choice, BenchError> {
    let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::INFINITY, |time| time.seconds);
    let mut best = Choice { shape: tree(calibration, 1)?.shape().clone(), expected_tokens: 1.0, expected_speedup: 1.0 };
    for time in times.iter().filter(|time| time.nodes > 1 && time.nodes <= calibration.order.len() + 1) {
        let shape = tree(calibration, time.nodes)?.shape().clone();
        let expected_tokens = 1.0 + gorgon_core::tree::calibrated::expected_accepted(&shape, accuracies)?;
        let expected_speedup = expected_tokens * plain / time.seconds;
        if expected_speedup > best.expected_speedup {
            best = Choice { shape, expected_tokens, expected_speedup };
        }
    }
    Ok(best)
}

/// All nodes worth their place, up to `most`, the best first.
///
/// # Errors
/// When `most` is no size of a tree.
pub fn order(accuracies: &HeadAccuracies, most: usize) -> Result<Calibration, BenchError> {
    Ok(calibrate(accuracies, most)?)
}
