//! Times of passes by their rows: costs of steps whose drafts are known without a target.

use crate::step_times::StepTime;
use crate::{BenchError, lower_median, median};
use gorgon_core::Token;
use gorgon_core::tree::TokenTree;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;
use std::time::Instant;

/// Numbers of rows that are timed.
const SIZES: [usize; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
/// Tokens of the text in front of the rows.
const PROMPT: usize = 256;
/// Passes of one measurement.
const PASSES: usize = 5;

/// Times `T(n)` of passes over `n` rows: every size once a round, in turns, and the lower median over the rounds. A pass
/// over more rows takes no less time, so times never fall.
///
/// # Errors
/// When the model fails, or has no room for a tree.
pub fn measure(decoder: &Arc<Decoder>, rounds: usize) -> Result<Vec<StepTime>, BenchError> {
    let (vocab, positions) = (decoder.config().vocab_size, decoder.config().max_positions);
    let most = SIZES[SIZES.len() - 1];
    let length = PROMPT.min(positions.saturating_sub(most));
    if length == 0 {
        return Err(BenchError::Empty(format!("a model of {positions} positions has no room for {most} rows")));
    }
    let prompt: Vec<Token> = (0..length).map(|i| (i * 7 % vocab) as Token).collect();
    let mut target = DecoderTarget::new(decoder.clone(), length + most, Hooks::none());
    let mut seconds = vec![vec![]; SIZES.len()];
    for round in 0..=rounds {
        for (size, seconds) in SIZES.into_iter().zip(&mut seconds) {
            let time = verify_seconds(&mut target, &prompt, size)?;
            // The first round warms up.
            seconds.extend((round > 0).then_some(time));
        }
    }
    let mut longest = 0.0;
    let times = SIZES.into_iter().zip(seconds).filter_map(|(nodes, seconds)| {
        longest = f64::max(longest, lower_median(seconds)?);
        Some(StepTime { nodes, seconds: longest, draft_seconds: 0.0, spread: 0.0 })
    });
    Ok(times.collect())
}

/// Seconds of one pass over a tree of `nodes` nodes after a prompt, with the argmax of each, which is what greedy
/// decoding asks of it: the median of some.
///
/// # Errors
/// When the model fails.
pub(crate) fn verify_seconds(target: &mut DecoderTarget, prompt: &[Token], nodes: usize) -> Result<f64, BenchError> {
    target.reset();
    target.prefill(prompt)?;
    // A bush: as many nodes as can be on each level, two below each.
    let tokens = (0..nodes).map(|node| (node % target.vocab_size()) as Token).collect();
    let parents = (0..nodes).map(|node| node.saturating_sub(1) / 2).collect();
    let tree = TokenTree::from_parts(tokens, parents).map_err(|error| BenchError::Empty(error.to_string()))?;
    let mut seconds = vec![];
    for _ in 0..PASSES {
        let started = Instant::now();
        let output = target.verify_tree(&tree)?;
        if std::hint::black_box(target.top_tokens(&output.hidden, &vec![1; tree.len()])).is_none() {
            std::hint::black_box(target.logits(&output.hidden));
        }
        seconds.push(started.elapsed().as_secs_f64());
        target.commit(&[0])?;
        target.truncate(prompt.len());
    }
    Ok(median(seconds).unwrap_or(f64::NAN))
}

/// Step times between and beyond the sizes that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCurve(Vec<StepTime>);

impl StepCurve {
    /// From measured times, the plain step's first.
    ///
    /// # Errors
    /// When there is no plain step, sizes do not grow, or a time is not above 0.
    pub fn new(times: Vec<StepTime>) -> Result<Self, BenchError> {
        let wrong = |reason: &str| Err(BenchError::Empty(format!("step times: {reason}")));
        if times.first().is_none_or(|first| first.nodes != 1) {
            return wrong("the first must be that of 1 node");
        }
        if times.windows(2).any(|pair| pair[0].nodes >= pair[1].nodes) {
            return wrong("numbers of nodes must grow");
        }
        match times.iter().all(|time| time.seconds.is_finite() && time.seconds > 0.0) {
            true => Ok(Self(times)),
            false => wrong("seconds must be above 0"),
        }
    }

    /// The measured times.
    pub fn times(&self) -> &[StepTime] {
        &self.0
    }

    /// `T(n)` in seconds, drafting excluded: linear between the sizes that were measured, and beyond them as between the
    /// last two.
    pub fn seconds(&self, nodes: usize) -> f64 {
        let verified = |time: &StepTime| (time.nodes as f64, time.seconds - time.draft_seconds);
        let above = self.0.partition_point(|time| time.nodes < nodes).clamp(1, self.0.len().max(2) - 1);
        let (Some(below), above) = (self.0.get(above - 1), self.0.get(above)) else { return f64::NAN };
        let Some(above) = above else { return verified(below).1 };
        let ((from, low), (to, high)) = (verified(below), verified(above));
        low + (high - low) * (nodes as f64 - from) / (to - from)
    }

    /// Seconds of drafting for a step of `nodes` nodes: those of the largest measured size within them.
    pub fn draft_seconds(&self, nodes: usize) -> f64 {
        let within = self.0.partition_point(|time| time.nodes <= nodes);
        self.0.get(within.max(1) - 1).map_or(0.0, |time| time.draft_seconds)
    }
}

#[cfg(test)]
mod tests;
