//! The tree that decodes fastest: measured accuracies, measured step times.

use crate::BenchError;
use crate::step_times::{StepTime, first_nodes};
use gorgon_core::Token;
use gorgon_core::tree::TreeShape;
use gorgon_core::tree::calibrated::{Calibration, HeadAccuracies, calibrate};
use gorgon_draft::medusa::MedusaModel;
use gorgon_model::target::DecoderTarget;

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
    target: &mut DecoderTarget,
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
            let logits = model.logits(&output.hidden.narrow(t, 1), reach);
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

/// The tree that should decode fastest.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its shape; a lone root where no tree beats plain decoding.
    pub shape: TreeShape,
    /// Expected tokens per step.
    pub expected_tokens: f64,
    /// Expected speed-up over plain decoding.
    pub expected_speedup: f64,
    /// Nodes and expected speed-up of a faster tree whose gain lies within the spread of the measurements.
    pub doubtful: Option<(usize, f64)>,
    /// The best tree with drafts, chosen or not, and its expected speed-up.
    pub drafting: Option<(TreeShape, f64)>,
}

impl Choice {
    /// A lone root.
    ///
    /// # Errors
    /// When it makes no shape.
    pub(crate) fn plain() -> Result<Self, BenchError> {
        let shape = TreeShape::new(vec![]).map_err(gorgon_core::tree::calibrated::CalibrationError::from)?;
        Ok(Self { shape, expected_tokens: 1.0, expected_speedup: 1.0, doubtful: None, drafting: None })
    }

    /// Takes a tree if it is expected to be faster than what was taken so far, and its gain is more than the spread.
    pub(crate) fn weigh(&mut self, shape: TreeShape, expected_tokens: f64, expected_speedup: f64, time: &StepTime) {
        if self.drafting.as_ref().is_none_or(|(_, known)| expected_speedup > *known) {
            self.drafting = Some((shape.clone(), expected_speedup));
        }
        if time.believes(expected_speedup) && expected_speedup > self.expected_speedup {
            (self.shape, self.expected_tokens, self.expected_speedup) = (shape, expected_tokens, expected_speedup);
        } else if expected_speedup > self.doubtful.map_or(1.0, |(_, known)| known) && !time.believes(expected_speedup) {
            self.doubtful = Some((shape.len(), expected_speedup));
        }
        self.doubtful = self.doubtful.filter(|(_, speedup)| *speedup > self.expected_speedup);
    }
}

/// The size with the most expected tokens per second, `(1 + Σ node values) / T(n)`, against `1 / T(plain)`; a gain that
/// lies within the spread of the measured times counts for nothing.
///
/// # Errors
/// When a shape cannot be.
pub fn choose(
    accuracies: &HeadAccuracies,
    calibration: &Calibration,
    times: &[StepTime],
) -> Result<Choice, BenchError> {
    let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::INFINITY, |time| time.seconds);
    let mut best = Choice::plain()?;
    for time in times.iter().filter(|time| time.nodes > 1 && time.nodes <= calibration.order.len() + 1) {
        let shape = first_nodes(calibration, time.nodes)?.shape().clone();
        let expected_tokens = 1.0 + gorgon_core::tree::calibrated::expected_accepted(&shape, accuracies)?;
        best.weigh(shape, expected_tokens, expected_tokens * plain / time.seconds, time);
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
