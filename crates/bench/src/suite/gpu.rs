//! The speed of recorded steps on a GPU: random weights of real shapes, drawn on the device.

use super::gpu_eagle;
use super::gpu_step::{GpuOptions, HEADS, Kind, RATES, counted};
use super::gpu_training::training;
use super::{Shape, SuiteReport};
use crate::BenchError;
use gorgon_core::Token;
use gorgon_core::tree::{PublishedTree, TreeShape};
use gorgon_draft::medusa::MedusaModel;
use gorgon_infer::StepCounts;
use gorgon_kernels::probe::Probe;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use serde_json::json;
use std::sync::Arc;

/// Sizes of trees whose steps are timed.
const SIZES: [usize; 8] = [1, 8, 16, 32, 48, 64, 96, 128];

impl Shape {
    /// Small enough for any device: what the suite itself is tried with.
    pub const TINY: Self = Self { name: "tiny", llama: sized(64, 160, 2, [4, 2], 512, 1024) };
    /// Vicuna-7B.
    pub const VICUNA_7B: Self = Self { name: "vicuna-7b", llama: sized(4096, 11_008, 32, [32, 32], 32_000, 4096) };
    /// Llama-3-8B.
    pub const LLAMA_3_8B: Self = Self { name: "llama-3-8b", llama: sized(4096, 14_336, 32, [32, 8], 128_256, 8192) };
}

const fn sized(
    hidden_size: usize,
    intermediate_size: usize,
    layers: usize,
    [heads, kv_heads]: [usize; 2],
    vocab_size: usize,
    max_positions: usize,
) -> LlamaShape {
    LlamaShape { hidden_size, intermediate_size, layers, heads, kv_heads, vocab_size, max_positions }
}

/// Measures everything; `observe` gets a line for each thing that is being measured.
///
/// # Errors
/// When the device is the CPU or a model fails.
pub fn run_gpu(options: &GpuOptions, observe: &mut dyn FnMut(&str)) -> Result<SuiteReport, BenchError> {
    let mut report = SuiteReport::default();
    observe("probes");
    probes(options, &mut report)?;
    observe("drawing random weights");
    let config = options.shape.llama.config(options.compute.format());
    let config = ModelConfig::from_json(&config).map_err(|error| BenchError::Empty(error.to_string()))?;
    let checkpoint = Checkpoint::drawn(&config);
    let decoder = Arc::new(Decoder::from_checkpoint(config, &checkpoint, &options.compute)?);
    if options.steps {
        observe("steps");
        steps(options, &decoder, &mut report, observe)?;
    }
    if options.training {
        observe("training");
        training(options, &decoder, &mut report, observe)?;
    }
    Ok(report)
}

/// Copying and multiplying: what the device can do at most.
fn probes(options: &GpuOptions, report: &mut SuiteReport) -> Result<(), BenchError> {
    let large = options.shape.is_large();
    let (floats, side) = if large { (1usize << 28, 8192usize) } else { (1 << 20, 256) };
    let probe = Probe::new(options.compute.device(), floats, side, options.compute.activation());
    let failed = |error: gorgon_kernels::probe::ProbeError| BenchError::Empty(error.to_string());
    let (mut copies, mut products) = (vec![], vec![]);
    for round in 0..options.rounds + 1 {
        let copied = probe.copied_bytes_per_second().map_err(failed)?;
        let flops = probe.multiplied_flops().map_err(failed)?;
        // The first round compiles.
        if round > 0 {
            copies.push(copied / 1e9);
            products.push(flops / 1e12);
            report
                .rows
                .push(json!({"what": "probe", "round": round, "copied_bytes_per_second": copied, "flops": flops}));
        }
    }
    report.add("copy, GB/s read and written", "device", copies, None);
    report.add(&format!("matrix product of {side}, TFLOP/s"), "device", products, None);
    Ok(())
}

fn steps(
    options: &GpuOptions,
    decoder: &Arc<Decoder>,
    report: &mut SuiteReport,
    observe: &mut dyn FnMut(&str),
) -> Result<(), BenchError> {
    let vocab = options.shape.llama.vocab_size as u32;
    let prompt: Vec<Token> = (0..options.context as u32).map(|i| (i * 97 + 11) % vocab).collect();
    let mut kinds = kinds(options, decoder)?;
    kinds.push(gpu_eagle::kind(options, decoder)?);
    for round in 0..options.rounds + 1 {
        let order: Vec<usize> =
            if round % 2 == 0 { (0..kinds.len()).collect() } else { (0..kinds.len()).rev().collect() };
        for index in order {
            // An oracle says what plain decoding said.
            let text = [&prompt[..], &kinds[0].ids].concat();
            let kind = &mut kinds[index];
            kind.recorded.reveal(&text, kind.rates, round as u64);
            kind.run(options, &prompt, round, report, observe)?;
        }
    }
    let one = crate::median(kinds[0].seconds.clone()).unwrap_or(f64::NAN);
    let eagle = kinds.split_off(kinds.len() - 1);
    figures(options, &kinds, one, report);
    let name = format!("{} {}", options.shape.name, options.compute.format().name());
    gpu_eagle::figures(&eagle[0], &name, one, options.shape.is_large(), report);
    Ok(())
}

/// Steps that are recorded: those of all sizes, and Medusa's without and with an oracle.
fn kinds(options: &GpuOptions, decoder: &Arc<Decoder>) -> Result<Vec<Kind>, BenchError> {
    let mut kinds = vec![];
    for nodes in SIZES {
        kinds.push(Kind::new(format!("T({nodes})"), options, decoder, None, &chains(nodes)?)?);
    }
    let published: PublishedTree =
        "mc_sim_7b_63".parse().map_err(|error| BenchError::Empty(format!("the published tree: {error}")))?;
    for (name, oracle) in [("Medusa step", false), ("Medusa step with an oracle", true)] {
        let heads = MedusaModel::untrained(decoder.clone(), HEADS);
        kinds.push(Kind::new(name.into(), options, decoder, Some((heads, oracle)), published.shape())?);
    }
    Ok(kinds)
}

/// Adds what recorded steps took, given the time of a plain one.
fn figures(options: &GpuOptions, kinds: &[Kind], one: f64, report: &mut SuiteReport) {
    let name = format!("{} {}", options.shape.name, options.compute.format().name());
    let known = options.shape.is_large();
    let plain = kinds[0].seconds.iter().map(|seconds| 1.0 / seconds).collect();
    let plain_target = (options.shape.name == Shape::VICUNA_7B.name).then_some((270.0, true));
    report.add("plain decoding, tokens/s", &name, plain, plain_target);
    for kind in &kinds[1..SIZES.len()] {
        let target = (known && kind.nodes == 64).then_some((1.10, false));
        let ratios = kind.seconds.iter().map(|seconds| seconds / one).collect();
        report.add(&format!("{}/T(1)", kind.name), &name, ratios, target);
    }
    let listed = RATES.map(|rate| rate.to_string()).join(", ");
    let rates = format!("oracle {listed}");
    for (medusa, says) in kinds[SIZES.len()..].iter().zip(["untrained heads", &rates]) {
        let eta = medusa.seconds.iter().map(|seconds| one / seconds).collect();
        let what = format!("Medusa, eta at {} nodes ({says})", medusa.nodes);
        report.add(&what, &name, eta, known.then_some((0.87, true)));
        report.add(&format!("Medusa, tokens per step ({says})"), &name, vec![medusa.tokens_per_step], None);
    }
    let all = kinds.iter().map(|kind| kind.counts).fold(StepCounts::default(), StepCounts::and);
    counted("", &name, all, report);
}

/// Chains below a root, as even as can be: the shape of a tree costs nothing, its number of nodes does.
fn chains(nodes: usize) -> Result<TreeShape, BenchError> {
    let path = |node: usize| -> Vec<usize> { [vec![node % 16], vec![0; node / 16]].concat() };
    TreeShape::new((0..nodes - 1).map(path).collect()).map_err(|error| BenchError::Empty(error.to_string()))
}
