//! Decoding with an EAGLE draft layer on a GPU, in recorded steps: random weights and an oracle's tokens at full cost.

use super::SuiteReport;
use super::gpu_step::{GpuOptions, Kind, counted, target};
use crate::BenchError;
use gorgon_core::tree::{DynamicTree, TreeBuilder};
use gorgon_draft::eagle::EagleModel;
use gorgon_infer::Recorded;
use gorgon_model::decoder::Decoder;
use std::sync::Arc;

/// How often the oracle is right by depth.
const RATES: [f64; 6] = [0.8, 0.75, 0.7, 0.7, 0.65, 0.6];
/// Nodes, expansions and top-k children, as EAGLE-2 has them.
const TREE: (usize, usize, usize) = (60, 5, 10);

/// A sequence that is drafted by a layer with random weights and an oracle's tokens.
pub(super) fn kind(options: &GpuOptions, decoder: &Arc<Decoder>) -> Result<Kind, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Empty(format!("EAGLE: {error}"));
    let tree = DynamicTree::new(TREE.0, TREE.1, TREE.2).map_err(|error| failed(&error))?;
    let layer = EagleModel::drawn(decoder.clone()).map_err(|error| failed(&error))?;
    let nodes = tree.max_nodes();
    let recorded = Recorded::eagle(target(options, decoder), Box::new(layer), &tree, true)?;
    Ok(Kind::of("EAGLE step with an oracle".into(), nodes, recorded, &RATES))
}

/// Adds what was measured, given the time of a plain step.
pub(super) fn figures(eagle: &Kind, name: &str, one: f64, known: bool, report: &mut SuiteReport) {
    let eta = eagle.seconds.iter().map(|seconds| one / seconds).collect();
    let rates = format!("oracle {}", RATES.map(|rate| rate.to_string()).join(", "));
    report.add(&format!("EAGLE, eta at {} nodes ({rates})", eagle.nodes), name, eta, known.then_some((0.68, true)));
    report.add(&format!("EAGLE, tokens per step ({rates})"), name, vec![eagle.tokens_per_step], None);
    counted("EAGLE, ", name, eagle.counts, report);
}
