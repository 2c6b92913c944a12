//! The speed of the engine on a machine: random weights of real shapes, beside what the machine can do at most.

mod gpu;
mod gpu_eagle;
mod gpu_step;
mod gpu_training;
mod peer;
mod probe;
mod subject;

pub use gpu::run_gpu;
pub use gpu_step::GpuOptions;
pub use peer::{LlamaCpp, Peer, Peers};
pub use subject::{Shape, Subject, write_heads};

use crate::{BenchError, median};
use gorgon_model::device::{Compute, DraftWeights, FloatFormat, IntegerWeights, Products, Weights};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Sizes, formats and repetitions of the suite.
#[derive(Clone, Debug)]
pub struct SuiteOptions {
    /// Shapes.
    pub shapes: Vec<Shape>,
    /// Rounds; figures are medians over them.
    pub rounds: usize,
    /// Programs to measure in turns with the engine.
    pub peers: Peers,
    /// Where random weights are put for the time of the measurement.
    pub folder: PathBuf,
}

/// One figure beside what it should be.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the measurement.
    pub name: String,
    /// On which shape, in which format.
    pub subject: String,
    /// The median.
    pub value: f64,
    /// The lowest and highest of its rounds.
    pub range: (f64, f64),
    /// Target value, and whether higher is better.
    pub target: Option<(f64, bool)>,
}

impl Figure {
    /// Whether the target is reached; true without one.
    pub fn reached(&self) -> bool {
        self.target.is_none_or(|(target, more)| if more { self.value >= target } else { self.value <= target })
    }
}

/// Figures and the rows they come from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SuiteReport {
    /// All figures.
    pub figures: Vec<Figure>,
    /// Raw rows.
    pub rows: Vec<Value>,
}

impl SuiteReport {
    fn add(&mut self, name: &str, subject: &str, values: Vec<f64>, target: Option<(f64, bool)>) {
        let range = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
        if let Some(value) = median(values) {
            self.figures.push(Figure { name: name.into(), subject: subject.into(), value, range, target });
        }
    }
}

/// Measures everything; `observe` gets a line for each thing that is being measured, and `allocations` counts the
/// program's allocations so far.
///
/// # Errors
/// When weights cannot be written, a model fails, or the peer does.
pub fn run(
    options: &SuiteOptions,
    allocations: Option<&dyn Fn() -> u64>,
    observe: &mut dyn FnMut(&str),
) -> Result<SuiteReport, BenchError> {
    let mut report = SuiteReport::default();
    observe("probes");
    let peaks: Vec<f64> = (0..options.rounds.max(3)).map(|_| probe::multiply_add_peak()).collect();
    report.add("multiply-add peak, GFLOP/s", "machine", peaks.iter().map(|peak| peak / 1e9).collect(), None);
    let peaks = (0..options.rounds.max(3)).filter_map(|_| probe::byte_multiply_add_peak());
    report.add("byte multiply-add peak, G/s", "machine", peaks.map(|peak| peak / 1e9).collect(), None);
    for shape in &options.shapes {
        for compute in computes() {
            let name = format!("{} {}", shape.name, compute.precision());
            observe(&format!("{name}: writing and loading random weights"));
            let mut subject = Subject::load(*shape, compute.clone(), &options.folder)?;
            let mut peers = options.peers.start(&compute, subject.dir())?;
            observe(&format!("{name}: plain decoding"));
            plain(&mut subject, &mut peers, options.rounds, &mut report)?;
            observe(&format!("{name}: prefill"));
            passes(&mut subject, &mut peers, options.rounds, &mut report)?;
            drop(peers);
            observe(&format!("{name}: steps of 1 to 64 nodes"));
            steps(&mut subject, options.rounds, &mut report)?;
            observe(&format!("{name}: drafted decoding with an oracle"));
            drafted(&mut subject, options.rounds, &mut report)?;
            if let Some(allocations) = allocations {
                let [plain, drafted] = subject.allocations_per_step(allocations)?;
                report.add("allocations per plain step", &name, vec![plain], Some((0.0, false)));
                report.add("allocations per Medusa step", &name, vec![drafted], Some((0.0, false)));
            }
            subject.remove();
        }
    }
    Ok(report)
}

/// The formats to measure: 32 and 16 bits, products in `bf16` where the processor has them, and weights in 8 and 4 bits.
fn computes() -> Vec<Compute> {
    let plain = [FloatFormat::F32, FloatFormat::F16].map(Compute::cpu);
    let integers = [Weights::Int8, Weights::Int4].into_iter().filter_map(|weights| {
        Compute::cpu(FloatFormat::F16).with_integers(IntegerWeights { weights, ..IntegerWeights::default() }).ok()
    });
    let pairs = Compute::cpu(FloatFormat::Bf16).with_products(Products::Bf16);
    plain.into_iter().chain(pairs).chain(integers).collect()
}

/// Targets of a format: `T(8)/T(1)`, products of 16 and 64 rows over the peak, and eta of Medusa with 8 nodes.
struct Targets {
    eight_nodes: f64,
    products: Option<f64>,
    eta: f64,
}

impl Targets {
    fn of(compute: &Compute, shape: Shape) -> Self {
        match compute.integers().weights {
            Weights::Int8 => {
                // The LM head is read twice, and it is the larger part of a small model.
                let eta = if shape.is_large() { 0.80 } else { 0.60 };
                let eta = if shape.llama.hidden_size == Shape::MIDDLE.llama.hidden_size { 0.70 } else { eta };
                Self { eight_nodes: 1.15, products: Some(0.85), eta }
            }
            Weights::Int4 => Self { eight_nodes: 1.4, products: None, eta: 0.75 },
            // The peak is that of 32-bit numbers, which is no measure of products in `bf16`.
            Weights::Stored => {
                let products = (compute.products() == Products::F32).then_some(0.70);
                Self { eight_nodes: 1.25, products, eta: 0.75 }
            }
        }
    }
}

/// Plain decoding in turns with that of other programs.
fn plain(subject: &mut Subject, peers: &mut [Peer], rounds: usize, report: &mut SuiteReport) -> Result<(), BenchError> {
    let (mut speeds, mut shares) = (vec![], vec![]);
    let mut over_peers = vec![vec![]; peers.len()];
    subject.plain_run()?;
    for round in 0..rounds {
        let mut probe = 0.0;
        let own = |subject: &mut Subject| {
            let before = subject.read_probe();
            let run = subject.plain_run()?;
            probe = (before + subject.read_probe()) / 2.0;
            Ok(run.accepted.len() as f64 / run.decode_time.as_secs_f64())
        };
        let (speed, others) = in_turns(round, subject, peers, own, Peer::tokens_per_second)?;
        speeds.push(speed);
        shares.push(speed * subject.bytes_per_step() as f64 / probe);
        over_peers.iter_mut().zip(&others).for_each(|(over, other)| over.push(speed / other));
        report.rows.push(json!({
            "what": "plain", "subject": subject.name(), "round": round, "tokens_per_second": speed,
            "probe_bytes_per_second": probe, "bytes_per_step": subject.bytes_per_step(), "peers": named(peers, &others),
        }));
    }
    let name = subject.name();
    report.add("plain decoding, tokens/s", &name, speeds, None);
    report.add("plain decoding over the read probe", &name, shares, Some((0.85, true)));
    for (peer, over) in peers.iter().zip(over_peers) {
        let target = target_over(peer, subject.shape());
        report.add(&format!("plain decoding over {}", peer.name()), &name, over, target.map(|over| (over, true)));
    }
    Ok(())
}

/// Plain decoding over another program's.
fn target_over(peer: &Peer, shape: Shape) -> Option<f64> {
    match peer.name() {
        "transformers" if shape.is_large() => Some(1.25),
        "transformers" => Some(1.8),
        "llama.cpp q8_0" => Some(1.3),
        "llama.cpp q4_0" => Some(1.2),
        _ => None,
    }
}

/// Passes over prompts of 64 and 256 tokens and over 8 and 16 tokens to verify, in turns with other programs.
fn passes(
    subject: &mut Subject,
    peers: &mut [Peer],
    rounds: usize,
    report: &mut SuiteReport,
) -> Result<(), BenchError> {
    for (what, rows) in [("prefill", 64), ("prefill", 256), ("verify", 8), ("verify", 16)] {
        let mut speeds = vec![];
        let mut over_peers = vec![vec![]; peers.len()];
        for round in 0..rounds {
            let own = |subject: &mut Subject| match what {
                "prefill" => subject.prefill_seconds(rows),
                _ => subject.verify_seconds(rows),
            };
            let (seconds, others) = in_turns(round, subject, peers, own, |peer| peer.seconds(what, rows))?;
            speeds.push(rows as f64 / seconds);
            over_peers.iter_mut().zip(&others).for_each(|(over, other)| over.push(other / seconds));
            report.rows.push(json!({
                "what": what, "subject": subject.name(), "round": round, "rows": rows, "seconds": seconds,
                "peers": named(peers, &others),
            }));
        }
        let name = subject.name();
        let figure = if what == "prefill" { "prefill" } else { "one pass to verify" };
        report.add(&format!("{figure} of {rows} tokens, tokens/s"), &name, speeds, None);
        for (peer, over) in peers.iter().zip(over_peers) {
            let target = (rows == 256 && peer.name() == "llama.cpp q8_0").then_some((1.2, true));
            report.add(&format!("{figure} of {rows} tokens over {}", peer.name()), &name, over, target);
        }
    }
    Ok(())
}

/// A measurement of the engine and of all others. The engine is first in even rounds and last in odd ones.
fn in_turns(
    round: usize,
    subject: &mut Subject,
    peers: &mut [Peer],
    own: impl FnOnce(&mut Subject) -> Result<f64, BenchError>,
    other: impl FnMut(&mut Peer) -> Result<f64, BenchError>,
) -> Result<(f64, Vec<f64>), BenchError> {
    let others = || peers.iter_mut().map(other).collect::<Result<Vec<f64>, _>>();
    if round.is_multiple_of(2) {
        let value = own(subject)?;
        return Ok((value, others()?));
    }
    let others = others()?;
    Ok((own(subject)?, others))
}

/// Measurements by the program's name.
fn named(peers: &[Peer], values: &[f64]) -> Value {
    peers.iter().zip(values).map(|(peer, &value)| (peer.name().to_owned(), Value::from(value))).collect()
}

/// Sizes of trees whose verification is timed: all small ones, since none may stand out.
fn sizes() -> Vec<usize> {
    (1..=17).chain([24, 32, 48, 64]).collect()
}

/// Each size is timed beside a single node, so that what else the machine does in the meantime falls on both.
fn steps(subject: &mut Subject, rounds: usize, report: &mut SuiteReport) -> Result<(), BenchError> {
    let sizes = sizes();
    let mut ratios = vec![vec![]; sizes.len()];
    for round in 0..rounds {
        for (i, &nodes) in sizes.iter().enumerate() {
            let (time, single) = (subject.verify_seconds(nodes)?, subject.verify_seconds(1)?);
            ratios[i].push(time / single);
            report.rows.push(json!({
                "what": "step", "subject": subject.name(), "round": round, "nodes": nodes, "seconds": time,
                "seconds_of_one_node": single,
            }));
        }
    }
    let name = subject.name();
    let targets = Targets::of(subject.compute(), subject.shape());
    let of = |nodes: usize| sizes.iter().position(|&size| size == nodes).map_or(vec![], |i| ratios[i].clone());
    for (nodes, target) in
        [(2, None), (4, None), (8, Some((targets.eight_nodes, false))), (16, None), (32, None), (64, None)]
    {
        report.add(&format!("T({nodes})/T(1)"), &name, of(nodes), target);
    }
    let largest = jumps(subject, rounds, report)?;
    report.add("largest jump from n to n + 1, n <= 16", &name, vec![largest], Some((0.10, false)));
    for rows in [16, 64] {
        let shares = (0..rounds).map(|_| share_of_peak(subject, rows)).collect();
        let target = targets.products.filter(|_| rows == 64 || subject.compute().integers().weights == Weights::Int8);
        let target = target.map(|target| (target, true));
        report.add(&format!("{rows}-row products over the multiply-add peak"), &name, shares, target);
    }
    Ok(())
}

/// The products of a pass over the multiply-adds that the processor does at most, of bytes if weights are integers.
fn share_of_peak(subject: &Subject, rows: usize) -> f64 {
    let integers = subject.compute().integers().weights != Weights::Stored;
    let bytes = || probe::byte_multiply_add_peak().filter(|_| integers);
    let peak = || bytes().unwrap_or_else(|| probe::multiply_add_peak() / 2.0);
    let before = peak();
    let reached = subject.weights() as f64 * rows as f64 / subject.product_seconds(rows);
    reached / before.max(peak())
}

/// The largest part by which a step grows with a node more. A jump is small beside what else the machine does, so the
/// two are timed in turns, more often than the rest.
fn jumps(subject: &mut Subject, rounds: usize, report: &mut SuiteReport) -> Result<f64, BenchError> {
    let times = if subject.shape().is_large() { rounds } else { 3 * rounds };
    let mut largest = 0f64;
    for nodes in 1..=16 {
        let mut jumps = vec![];
        for round in 0..times {
            let first = if round % 2 == 0 { nodes } else { nodes + 1 };
            let (a, b) = (subject.verify_seconds(first)?, subject.verify_seconds(2 * nodes + 1 - first)?);
            jumps.push(if first == nodes { b / a } else { a / b } - 1.0);
        }
        let jump = median(jumps).unwrap_or(f64::NAN);
        report
            .rows
            .push(json!({"what": "jump", "subject": subject.name(), "nodes": nodes, "jump": jump, "times": times}));
        largest = largest.max(jump);
    }
    Ok(largest)
}

fn drafted(subject: &mut Subject, rounds: usize, report: &mut SuiteReport) -> Result<(), BenchError> {
    for (drafts, what) in [(DraftWeights::Stored, "Medusa"), (DraftWeights::Int8, "Medusa with --draft-weights int8")] {
        if drafts == DraftWeights::Int8 && subject.compute().integers().weights != Weights::Stored {
            continue;
        }
        let summary = subject.oracle(rounds, drafts)?;
        let (name, eta) = (subject.name(), Targets::of(subject.compute(), subject.shape()).eta);
        report.add(&format!("{what}, eta at 8 nodes"), &name, vec![summary.eta], Some((eta, true)));
        if drafts == DraftWeights::Stored {
            let tokens = vec![summary.tokens_per_step];
            report.add("Medusa, tokens per step (oracle 0.7, 0.6, 0.5, 0.4)", &name, tokens, None);
        }
        report.add(&format!("{what}, speed over plain decoding"), &name, vec![summary.speedup], None);
        report.rows.push(json!({"what": "oracle", "heads": what, "subject": name, "summary": summary}));
    }
    Ok(())
}

/// A fresh folder below the system's one for temporary files.
pub fn scratch_folder() -> std::io::Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("gorgon-suite-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
