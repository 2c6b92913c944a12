//! Tools for engineers.

use super::fit::Fit;
use super::replay::Replay;
use super::runs::OneRun;
use super::skip::SkipSearch;
use super::sweep::Sweep;
use clap::{Args, Subcommand};
use gorgon_workflows::train::DEFAULT_BLOCK;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Write hidden states and logits of a list of token ids to a safetensors file.
    Logits(Logits),
    /// Compute the hidden states that a training will read, ahead of it.
    Features(Features),
    /// Write dialogues of the synthetic corpus, or check a model's answers to them.
    Synth(Synth),
    /// Train a small Llama from scratch.
    Pretrain(Fit),
    /// Fit a small T5 from scratch to a synthetic task: encoder-decoder models to try drafting on.
    T5(T5),
    /// Measure the engine with random weights, beside the limits of this machine.
    Suite(Suite),
    /// Measure lossy acceptance rules over a range of α: right answers, rejections, speed.
    Sweep(Box<Sweep>),
    /// Measure drafters that read tokens alone on recorded answers: tokens per step by category, without a model.
    Replay(Replay),
    /// Search the attentions and feed-forward networks that a model drafts fastest without, for --drafter skip:FILE.
    Skip(SkipSearch),
    /// Compute the Jacobi trajectories of the answers in shards, which method = "cllm" is fitted to.
    Trajectories(Trajectories),
    /// Draw the plots of a run again, from its metrics.jsonl.
    Plot(OneRun),
    /// Write man pages of all verbs into a folder.
    Man(Man),
}

/// Options of `gorgon dev trajectories`.
#[derive(Debug, Args)]
pub struct Trajectories {
    /// The folder of shards; trajectories are written beside them.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// The model whose answers they are: a folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    /// Tokens of a block.
    #[arg(long, default_value_t = DEFAULT_BLOCK, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=256))]
    pub block: u32,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The folder; it is made if it is missing.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct Logits {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    /// Token ids, separated by commas.
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub ids: String,
    /// Token ids of the decoder's side, of an encoder-decoder model, whose source `--ids` is; rows are the decoder's then
    /// [default: the token that its decoder begins with].
    #[arg(long, value_name = "IDS", allow_hyphen_values = true, conflicts_with = "heads")]
    pub decoder_ids: Option<String>,
    /// The file to write: `hidden [n, d]` after the final norm and `logits [n, V]`, in f32; of an
    /// encoder-decoder model also `encoder [source, d]` after the encoder's final norm.
    #[arg(long, value_name = "F")]
    pub out: PathBuf,
    /// A folder of draft heads, or the run folder of a training: also writes what they say along the tokens,
    /// `draft_inputs [n - N, d]`, `draft_states [n - N, N, d]` and `draft_logits [n - N, N, D]`. Row (i, k) guesses
    /// token i + k + 2 from the model's states up to token i and the tokens up to i + k + 1.
    #[arg(long, value_name = "H")]
    pub heads: Option<PathBuf>,
    /// Guesses of the heads at every token [default: 4, or as many as there are heads].
    #[arg(long, value_name = "N", requires = "heads", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub drafts: Option<u8>,
}

/// Options of `gorgon dev features`.
#[derive(Debug, Args)]
pub struct Features {
    /// The config file of the training.
    #[arg(short, long, value_name = "C")]
    pub config: PathBuf,
    /// Config keys to override.
    #[arg(value_name = "KEY.PATH=VALUE")]
    pub overrides: Vec<String>,
    /// Resume an interrupted job. This is the default: the folder records what is done.
    #[arg(long)]
    pub resume: bool,
    /// Report the plan, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Synth {
    /// Dialogues.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub dialogues: u64,
    /// Take held-out dialogues: other wordings and other operands than those for training.
    #[arg(long)]
    pub held_out: bool,
    /// The file to write, JSONL in the ShareGPT format; standard output if there is none.
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Write the corpus's card into this folder: manifest, a sample for training, held-out prompts.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "check", "kind", "held_out"])]
    pub folder: Option<PathBuf>,
    /// Let this model answer them, and count its right answers by kind.
    #[arg(long, value_name = "M", conflicts_with = "out")]
    pub check: Option<String>,
    /// Dialogues of this kind only.
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
}

/// Options of `gorgon dev t5`.
#[derive(Debug, Args)]
pub struct T5 {
    /// The folder to write: the model, a tokenizer of bytes and held-out prompts; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Width of the residual stream, a multiple of the heads.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub hidden_size: u32,
    /// Layers of the encoder, and of the decoder.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=24))]
    pub layers: u32,
    /// Heads of a layer.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub heads: u32,
    /// Steps.
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
    /// Pairs of source and answer in a step.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub pairs: u32,
    /// Highest learning rate.
    #[arg(long, default_value_t = 0.003, value_name = "R", value_parser = rate)]
    pub learning_rate: f64,
}

/// A learning rate.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("a number above 0 and of at most 1 is expected".into()),
    }
}

/// Options of `gorgon dev suite`.
#[derive(Debug, Args)]
pub struct Suite {
    /// The device to measure: cpu (42M and 110M parameters), or gpu (recorded steps on the device of --device).
    #[arg(value_name = "DEVICE")]
    pub measured: SuiteDevice,
    /// gpu: shape of the weights.
    #[arg(long, value_name = "SHAPE", default_value = "vicuna-7b")]
    pub shape: GpuShape,
    /// gpu: tokens of the prompt.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub prompt_tokens: u32,
    /// gpu: new tokens of a run.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=2048))]
    pub tokens: u32,
    /// gpu: measure only steps of decoding, or only training.
    #[arg(long, value_name = "PART")]
    pub only: Option<GpuPart>,
    /// cpu: also measure 1.1B parameters.
    #[arg(long)]
    pub large: bool,
    /// A Python with PyTorch and transformers, to decode plainly with the same weights in turns (f32, on the CPU).
    #[arg(long, value_name = "P")]
    pub python: Option<PathBuf>,
    /// cpu: a folder in which npm has installed node-llama-cpp, to decode with the same weights in turns (f32, f16,
    /// Q8_0, Q4_0). The Python needs gguf then.
    #[arg(long, value_name = "DIR", requires = "python")]
    pub llama_cpp: Option<PathBuf>,
    /// Rounds of every measurement.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Also write everything, raw rows included, as JSON.
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// The kind of device that a suite measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SuiteDevice {
    /// The CPU.
    Cpu,
    /// The GPU that --device names: recorded steps, with weights drawn on it.
    Gpu,
}

/// Parts of the suite on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GpuPart {
    /// Plain and drafted steps.
    Steps,
    /// Fitting Medusa heads.
    Training,
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
