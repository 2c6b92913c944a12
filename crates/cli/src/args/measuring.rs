//! Verbs that measure.

use super::accept::{Accept, SweepRange};
use super::draft::Draft;
use clap::{Args, Subcommand};
use gorgon_core::tree::TreeChoice;
use std::path::PathBuf;

/// What `bench`, `verify` and `tree calibrate` have in common.
#[derive(Clone, Debug, Args)]
pub struct Contest {
    /// A model folder or a repo id.
    #[arg(long, value_name = "M", default_value = "", hide_default_value = true)]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// A file of prompts.
    #[arg(long, value_name = "F")]
    pub prompts: Option<PathBuf>,
    /// User turns of each conversation; later ones follow the model's own answers.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub turns: u32,
    /// Prompts at most.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// New tokens at most.
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: u32,
    /// Acceptance rule, as of generate. With --sweep: names of rules without their α, separated by commas
    /// (chow, diff, opt, token-v1, token-v2, token-v3, lossy, lossy-greedy, bild, bild:FB).
    #[arg(long, default_value = "auto", value_name = "R")]
    pub accept: Accept,
    /// 0 takes the likeliest token; 1 samples from the model as it is.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_hyphen_values = true)]
    pub temperature: f64,
    /// Sample from the likeliest tokens that hold this much probability.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub top_p: Option<f64>,
    /// Sample from this many likeliest tokens.
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Continue past end tokens.
    #[arg(long)]
    pub ignore_eos: bool,
}

#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    pub contest: Contest,
    /// Instead of a model: the engine's speed with random weights of 42M and 110M parameters, beside what this machine
    /// can do at most.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["model", "prompts", "heads"])]
    pub suite: Option<Suite>,
    /// Lossy rules at these α, beside plain and lossless decoding: share of right answers to held-out prompts of the
    /// synthetic corpus, rejections and speed. Needs --drafter model:DIR; --limit counts prompts.
    #[arg(long, value_name = "alpha=A1,A2,…", conflicts_with_all = ["suite", "prompts", "heads", "python"])]
    pub sweep: Option<SweepRange>,
    /// With --sweep: draw quality against rejections and against speed into this folder.
    #[arg(long, value_name = "DIR", requires = "sweep")]
    pub plots: Option<PathBuf>,
    /// With --suite gpu: the shape of the weights.
    #[arg(long, requires = "suite", value_name = "SHAPE", default_value = "vicuna-7b")]
    pub shape: GpuShape,
    /// With --suite gpu: tokens of the prompt.
    #[arg(long, requires = "suite", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub context: u32,
    /// With --suite gpu: new tokens of a run.
    #[arg(long, requires = "suite", value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=2048))]
    pub tokens: u32,
    /// With --suite: also 1.1B parameters.
    #[arg(long, requires = "suite")]
    pub large: bool,
    /// A Python with PyTorch and transformers, to decode plainly with the same weights in turns (f32, on the CPU).
    #[arg(long, value_name = "P")]
    pub python: Option<PathBuf>,
    /// Rounds over all prompts; plain and drafted runs take turns at being first.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Also write everything, raw rows included, as JSON.
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// Where a suite measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// The CPU.
    Cpu,
    /// The GPU that --device names: recorded steps, with weights drawn on it.
    Gpu,
}

/// Shapes of random weights on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GpuShape {
    /// Small enough for any device.
    Tiny,
    /// Vicuna-7B.
    #[default]
    #[value(name = "vicuna-7b")]
    Vicuna7b,
    /// Llama-3-8B.
    #[value(name = "llama-3-8b")]
    Llama3,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub contest: Contest,
    /// Above temperature 0: answers sampled for each prompt.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
}

#[derive(Debug, Subcommand)]
pub enum TreeCommand {
    /// Measure accuracies and step times on this machine, and store the tree that should decode fastest with the heads.
    Calibrate(Calibrate),
    /// Take the optimal tree under the positional acceptance that a calibration measured, and store it with the heads.
    Sequoia(Sequoia),
    /// Draw a tree.
    Show(Show),
}

#[derive(Debug, Args)]
pub struct Calibrate {
    #[command(flatten)]
    pub contest: Contest,
    /// Measurements of each step time.
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

#[derive(Debug, Args)]
pub struct Sequoia {
    /// Heads that were calibrated.
    #[arg(long, value_name = "H")]
    pub heads: PathBuf,
    /// Nodes, the root included [default: what should decode fastest with the measured step times].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub nodes: Option<u16>,
}

/// `gorgon plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Heads that were calibrated: acceptance, costs and step times are those measured with them.
    #[arg(long, value_name = "H")]
    pub heads: Option<PathBuf>,
    /// Instead: the probability that a draft is accepted given that those before it were.
    #[arg(long, value_name = "A", conflicts_with = "heads")]
    pub alpha: Option<f64>,
    /// With --alpha: the time of one draft over that of a plain step.
    #[arg(long, default_value_t = 0.0, value_name = "C", conflicts_with = "heads", allow_hyphen_values = true)]
    pub draft_cost: f64,
    /// The operations of one draft over those of a plain step [default: the draft cost].
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    pub draft_operations: Option<f64>,
    /// The longest chain to consider.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub longest: u16,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The heads whose stored tree to draw.
    #[arg(long, value_name = "H")]
    pub heads: Option<PathBuf>,
    /// A published list or a file.
    #[arg(long, value_name = "T")]
    pub tree: Option<TreeChoice>,
}
