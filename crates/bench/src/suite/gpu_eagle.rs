//! Decoding with an EAGLE draft layer on a GPU. Its steps are not recorded: trees are made on the host, which reads after every
//! level, so what is timed is the way of any drafter but recorded Medusa heads.

use super::SuiteReport;
use super::gpu::GpuOptions;
use crate::BenchError;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::draws::Seeded;
use gorgon_core::tree::{DynamicTree, TreeBuilder};
use gorgon_draft::eagle::{EagleDrafter, EagleModel};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{Limits, Stepper, decode_with};
use gorgon_model::decoder::Decoder;
use gorgon_model::taps::Taps;
use gorgon_model::target::{self, Target};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How often the oracle is right by depth.
const RATES: [f64; 6] = [0.8, 0.75, 0.7, 0.7, 0.65, 0.6];
/// Nodes, expansions and likeliest children, as EAGLE-2 has them.
const TREE: (usize, usize, usize) = (60, 5, 10);

/// A sequence that is drafted by a layer with random weights and an oracle's tokens.
pub(super) struct Eagle {
    target: Target,
    drafter: OracleDrafter,
    tree: DynamicTree,
    seconds: Vec<f64>,
    reads: Vec<f64>,
    drafting: Vec<f64>,
    tokens: Vec<f64>,
}

impl Eagle {
    pub(super) fn new(options: &GpuOptions, decoder: &Arc<Decoder>) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Empty(format!("EAGLE: {error}"));
        let tree = DynamicTree::new(TREE.0, TREE.1, TREE.2).map_err(|error| failed(&error))?;
        let model = EagleModel::drawn(decoder.clone()).map_err(|error| failed(&error))?;
        let vocab = decoder.config().vocab_size;
        let drafter = OracleDrafter::new(Box::new(EagleDrafter::new(model)), RATES.to_vec(), vocab, 7);
        let room = options.context + options.tokens;
        let target = Target::with_trees(decoder.clone(), room, tree.max_nodes(), Taps::none());
        Ok(Self { target, drafter, tree, seconds: vec![], reads: vec![], drafting: vec![], tokens: vec![] })
    }

    /// One generation after `prompt`, whose plain continuation is `truth`. The first round compiles; it does not count.
    pub(super) fn run(
        &mut self,
        options: &GpuOptions,
        (prompt, truth): (&[Token], &[Token]),
        round: usize,
        report: &mut SuiteReport,
    ) -> Result<(), BenchError> {
        self.drafter.reveal(truth.to_vec());
        let limits = Limits { max_new_tokens: options.tokens, end_tokens: vec![] };
        let draws = &mut Seeded::new(0);
        let mut with =
            Stepper { target: &mut self.target, drafter: &mut self.drafter, builder: &self.tree, rule: &Greedy, draws };
        let mut before = None;
        // Reads for the prompt are no step's.
        let mut observe = |_| {
            before.get_or_insert_with(target::reads);
            ControlFlow::Continue(())
        };
        let run = decode_with(&mut with, prompt, &limits, &mut observe)?;
        let reads = target::reads() - before.unwrap_or_default();
        let steps = run.accepted.len().max(1) as f64;
        let seconds = run.decode_time.as_secs_f64();
        let parts = [run.times.draft, run.times.verify, run.times.accept, run.times.commit];
        let parts = parts.map(|part| part.0.as_secs_f64() / steps);
        if round > 0 {
            self.seconds.push(seconds / steps);
            self.reads.push(reads as f64 / steps);
            self.drafting.push(parts[0] * steps / seconds);
            self.tokens.push(run.tokens_per_step().unwrap_or(f64::NAN));
        }
        report.rows.push(json!({
            "what": "EAGLE step", "round": round, "steps": run.accepted.len(), "nodes": run.nodes,
            "seconds_per_step": seconds / steps, "prefill_seconds": run.prefill_time.as_secs_f64(), "reads": reads,
            "draft_verify_accept_commit_seconds": parts, "accepted": run.accepted,
        }));
        Ok(())
    }

    /// Adds what was measured, given the time of a plain step.
    pub(super) fn figures(self, name: &str, one: f64, known: bool, report: &mut SuiteReport) {
        let eta = self.seconds.iter().map(|seconds| one / seconds).collect();
        let nodes = self.tree.max_nodes();
        report.add(&format!("EAGLE, eta at {nodes} nodes (not recorded)"), name, eta, known.then_some((0.68, true)));
        let listed = RATES.map(|rate| rate.to_string()).join(", ");
        report.add(&format!("EAGLE, tokens per step (oracle {listed})"), name, self.tokens, None);
        report.add("EAGLE, reads per step", name, self.reads, Some((1.0, false)));
        report.add("EAGLE, share of drafting", name, self.drafting, None);
    }
}
