//! Step times by the number of nodes, on machines that do other things as well.
//!
//! Every size of tree is measured in pairs with plain decoding: one right after the other, in turns, on the same
//! prompt. What slows the machine for longer than a pair slows both, so the ratio of their steps stays what it is. A
//! size's ratio is the median over its pairs. A step with more nodes cannot take less time, so sizes whose medians say
//! so are pooled until none does (isotonic regression by pooling adjacent violators, with medians: it minimises the sum
//! of distances).

use crate::measure::{BenchPrompt, Comparison};
use crate::{BenchError, lower_median};
use gorgon_core::tree::calibrated::{Calibration, CalibrationError};
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_infer::{Generation, Limits};
use gorgon_model::target::DecoderTarget;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// New tokens of a generation at least, where the limits allow as many.
const SHORTEST: usize = 16;

/// The time of a step by the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Nodes, the root included; 1 stands for plain decoding without a drafter.
    pub nodes: usize,
    /// Seconds: those of a plain step times the median ratio.
    pub seconds: f64,
    /// Seconds of these for drafting.
    #[serde(default)]
    pub draft_seconds: f64,
    /// How far the ratios spread upwards: their upper quartile over their median, less one.
    #[serde(default)]
    pub spread: f64,
}

impl StepTime {
    /// Whether a speed-up over plain decoding that follows from this time would be one at the upper quartile as well.
    pub fn believes(&self, speedup: f64) -> bool {
        speedup > 1.0 + self.spread
    }
}

/// The first `nodes` nodes of a calibrated order.
pub(crate) fn first_nodes(calibration: &Calibration, nodes: usize) -> Result<FixedTree, BenchError> {
    let paths = calibration.order.iter().take(nodes - 1).cloned().collect();
    let shape = TreeShape::new(paths).map_err(CalibrationError::from)?;
    Ok(FixedTree::new(shape))
}

/// Paired step times of one tree size.
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// A drafted step's time over a plain one's.
    ratios: Vec<f64>,
    /// Share of drafting in a drafted step.
    drafting: Vec<f64>,
}

/// Measures whole steps (draft, verify, accept, commit) of trees of growing size, each in `rounds` pairs with plain
/// decoding. Of `sizes`, 1 stands for that.
///
/// # Errors
/// When the model or the drafter fails.
pub fn measure(
    comparison: &mut Comparison<'_>,
    calibration: &Calibration,
    prompts: &[BenchPrompt],
    sizes: &[usize],
    rounds: usize,
) -> Result<Vec<StepTime>, BenchError> {
    let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    let drafted: Vec<usize> = sizes.iter().copied().filter(|&n| n > 1).collect();
    let trees: Vec<FixedTree> = drafted.iter().map(|&n| first_nodes(calibration, n)).collect::<Result<_, _>>()?;
    let mut pairs = vec![Pairs::default(); drafted.len()];
    let mut plain = vec![];
    // A pair is two generations where there was one: each of half the length.
    let new = (comparison.limits.max_new_tokens / 2).max(SHORTEST).min(comparison.limits.max_new_tokens);
    let limits = Limits { max_new_tokens: new, ..comparison.limits.clone() };
    let hooks = comparison.drafter.needs().hooks;
    let mut target = DecoderTarget::new(comparison.decoder.clone(), longest + new, hooks);
    for round in 0..=rounds {
        for (i, tree) in trees.iter().enumerate() {
            let prompt = &prompts[(round + i) % prompts.len()];
            let mut with = Comparison {
                recorded: None,
                decoder: comparison.decoder,
                drafter: &mut *comparison.drafter,
                builder: tree,
                rule: comparison.rule,
                limits: limits.clone(),
                seed: comparison.seed,
            };
            let pair = pair(&mut with, &mut target, prompt, (round + i) % 2 == 1)?;
            // The first round warms up.
            if let (Some((step, drafting, beside)), true) = (pair, round > 0) {
                pairs[i].ratios.push(step / beside);
                pairs[i].drafting.push(drafting / step);
                plain.push(beside);
            }
        }
    }
    Ok(lower_median(plain).map_or_else(Vec::new, |plain| times(&drafted, &pairs, plain)))
}

/// Decodes a prompt with drafts and plainly, in this or the other order. Seconds of a drafted step, of drafting in it,
/// and of a plain step; `None` if one of them took no step.
fn pair(
    comparison: &mut Comparison<'_>,
    target: &mut DecoderTarget,
    prompt: &BenchPrompt,
    plain_first: bool,
) -> Result<Option<(f64, f64, f64)>, BenchError> {
    let seconds = |started: Instant, generation: &Generation| {
        let steps = Some(generation.accepted.len()).filter(|&steps| steps > 0)? as f64;
        Some((
            (started.elapsed() - generation.prefill_time).as_secs_f64() / steps,
            generation.times.draft.0.as_secs_f64() / steps,
        ))
    };
    let plain = |comparison: &mut Comparison<'_>, target: &mut DecoderTarget| -> Result<_, BenchError> {
        let started = Instant::now();
        let generation = comparison.plain(target, &prompt.ids)?;
        Ok(seconds(started, &generation))
    };
    let early = if plain_first { Some(plain(comparison, target)?) } else { None };
    let started = Instant::now();
    let generation = comparison.drafted(target, &prompt.ids)?;
    let drafted = seconds(started, &generation);
    let plain = early.map_or_else(|| plain(comparison, target), Ok)?;
    Ok(drafted.zip(plain).map(|((step, drafting), (plain, _))| (step, drafting, plain)))
}

/// Times of the sizes that have pairs, plain decoding first.
fn times(sizes: &[usize], pairs: &[Pairs], plain: f64) -> Vec<StepTime> {
    let measured: Vec<(usize, &Pairs)> =
        sizes.iter().copied().zip(pairs).filter(|(_, pairs)| !pairs.ratios.is_empty()).collect();
    let samples: Vec<&[f64]> = measured.iter().map(|(_, pairs)| pairs.ratios.as_slice()).collect();
    let drafted = measured.iter().zip(growing(&samples)).map(|((nodes, pairs), (ratio, spread))| {
        let seconds = ratio * plain;
        let drafting = lower_median(pairs.drafting.clone()).unwrap_or(0.0);
        StepTime { nodes: *nodes, seconds, draft_seconds: seconds * drafting, spread }
    });
    let alone = StepTime { nodes: 1, seconds: plain, draft_seconds: 0.0, spread: 0.0 };
    std::iter::once(alone).chain(drafted).collect()
}

/// A median and a spread for each sample, with medians that never fall and are never below one: samples next to each
/// other whose medians fall are pooled.
fn growing(samples: &[&[f64]]) -> Vec<(f64, f64)> {
    /// Samples that are pooled: how many they are, what is in them, and its median.
    struct Block {
        samples: usize,
        values: Vec<f64>,
        middle: f64,
    }
    let middle = |values: &[f64]| lower_median(values.to_vec()).unwrap_or(1.0).max(1.0);
    let mut blocks: Vec<Block> = vec![];
    for sample in samples {
        let mut last = Block { samples: 1, values: sample.to_vec(), middle: middle(sample) };
        while let Some(before) = blocks.pop_if(|before| before.middle > last.middle) {
            let values = [before.values, last.values].concat();
            last = Block { samples: before.samples + last.samples, middle: middle(&values), values };
        }
        blocks.push(last);
    }
    let told = |block: Block| {
        let spread = (upper_quartile(block.values) / block.middle - 1.0).max(0.0);
        std::iter::repeat_n((block.middle, spread), block.samples)
    };
    blocks.into_iter().flat_map(told).collect()
}

/// The number that at least three quarters of these do not exceed; 0 of none.
fn upper_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (3 * values.len()).div_ceil(4).saturating_sub(1);
    values.get(at).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
