//! A sequence whose recorded steps are timed.

use super::{Shape, SuiteReport};
use crate::BenchError;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeShape;
use gorgon_draft::medusa::MedusaModel;
use gorgon_infer::{Limits, Recorded, StepCounts};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::Compute;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How often an oracle in place of trained heads is right, by depth.
pub(super) const RATES: [f64; 4] = [0.7, 0.6, 0.5, 0.4];
/// Medusa heads of the drafted step.
pub(super) const HEADS: usize = 4;

/// Shapes and repetitions of the GPU suite.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// The shape.
    pub shape: Shape,
    /// The device.
    pub compute: Compute,
    /// Rounds; figures are medians over them.
    pub rounds: usize,
    /// Tokens of the prompt.
    pub context: usize,
    /// New tokens of a run.
    pub tokens: usize,
    /// Measure steps of decoding.
    pub steps: bool,
    /// Measure training.
    pub training: bool,
}

/// A kind of step with its times.
pub(super) struct Kind {
    pub name: String,
    pub nodes: usize,
    pub recorded: Recorded,
    /// How often an oracle is right, by depth.
    pub rates: &'static [f64],
    pub seconds: Vec<f64>,
    pub tokens_per_step: f64,
    /// Counts over the timed steps, and all recordings that fell back.
    pub counts: StepCounts,
    /// Tokens of the last decoding.
    pub ids: Vec<Token>,
}

impl Kind {
    /// A sequence with Medusa heads, if there are any; the flag says whether an oracle drafts in their place.
    pub(super) fn new(
        name: String,
        options: &GpuOptions,
        decoder: &Arc<Decoder>,
        heads: Option<(MedusaModel, bool)>,
        shape: &TreeShape,
    ) -> Result<Self, BenchError> {
        let target = target(options, decoder);
        let recorded = match heads {
            Some((heads, true)) => Recorded::guided(target, heads, shape)?,
            heads => Recorded::new(target, heads.map(|(heads, _)| heads), shape)?,
        };
        Ok(Self::of(name, shape.len(), recorded, &RATES))
    }

    /// A sequence of which nothing is measured yet.
    pub(super) fn of(name: String, nodes: usize, recorded: Recorded, rates: &'static [f64]) -> Self {
        let (seconds, tokens_per_step, counts, ids) = (vec![], f64::NAN, StepCounts::default(), vec![]);
        Self { name, nodes, recorded, rates, seconds, tokens_per_step, counts, ids }
    }

    /// One generation. The first round compiles and records; it does not count.
    pub(super) fn run(
        &mut self,
        options: &GpuOptions,
        prompt: &[Token],
        round: usize,
        report: &mut SuiteReport,
        observe: &mut dyn FnMut(&str),
    ) -> Result<(), BenchError> {
        let limits = Limits { max_new_tokens: options.tokens, end_tokens: vec![] };
        let device = options.compute.device();
        let held = || device.memory_pool_usage().map(|usage| usage.bytes_reserved);
        let before = held();
        self.recorded.reset();
        let run = self.recorded.decode(prompt, &limits, SeededRandom::new(0), &mut |_| ControlFlow::Continue(()))?;
        let after = held();
        let counted = self.recorded.take_counts();
        let counts = &mut self.counts;
        counts.fallbacks += counted.fallbacks;
        let steps = run.accepted.len().max(1);
        if round > 0 {
            counts.steps += counted.steps;
            counts.reads += counted.reads;
            counts.replays += counted.replays;
            self.seconds.push(run.decode_time.as_secs_f64() / steps as f64);
            self.tokens_per_step = run.tokens_per_step().unwrap_or(f64::NAN);
        }
        let milliseconds = run.decode_time.as_secs_f64() * 1e3 / steps as f64;
        observe(&format!("round {round}, {}: {milliseconds:.3} ms a step", self.name));
        report.rows.push(json!({
            "what": self.name, "nodes": self.nodes, "round": round, "steps": steps,
            "seconds_per_step": run.decode_time.as_secs_f64() / steps as f64, "prefill_seconds": run.prefill_time.as_secs_f64(),
            "reads": counted.reads, "replays": counted.replays, "recordings": counted.recordings,
            "fallbacks": counted.fallbacks, "bytes_reserved_before": before, "bytes_reserved_after": after,
        }));
        self.ids = run.ids;
        Ok(())
    }
}

/// A sequence for a prompt and its new tokens.
pub(super) fn target(options: &GpuOptions, decoder: &Arc<Decoder>) -> DecoderTarget {
    DecoderTarget::new(decoder.clone(), options.context + options.tokens, Hooks::none())
}

/// Adds what was counted in the steps of `whose`.
pub(super) fn counted(whose: &str, name: &str, counts: StepCounts, report: &mut SuiteReport) {
    let per_step = |count: usize| vec![count as f64 / counts.steps.max(1) as f64];
    report.add(&format!("{whose}reads per step"), name, per_step(counts.reads), Some((1.0, false)));
    report.add(&format!("{whose}replays per step"), name, per_step(counts.replays), Some((1.0, true)));
    report.add(&format!("{whose}recordings that fell back"), name, vec![counts.fallbacks as f64], Some((0.0, false)));
}
