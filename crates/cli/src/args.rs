//! The command line as it is typed.

mod accept;
mod draft;
mod measuring;

pub use accept::{Accept, SweepRange};
pub use draft::Draft;
pub use measuring::{Bench, Calibrate, Contest, GpuShape, Plan, Sequoia, Show, Suite, TreeCommand, Verify};

use clap::{Args, Parser, Subcommand};
use gorgon_core::accept::RuleChoice;
use gorgon_model::device::{FloatFormat, Int8, Products};
use gorgon_workflows::devices::Devices;
use gorgon_workflows::distill::Part;
use gorgon_workflows::export::ExportFormat;
use std::path::PathBuf;

/// Trains Medusa and EAGLE draft heads for a language model and decodes with them, losslessly and fast.
#[derive(Debug, Parser)]
#[command(name = "gorgon", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every verb")]
pub struct Global {
    /// Where to compute: auto, cpu, cuda[:INDEX] or wgpu. train and pretrain share their work among several devices of
    /// one kind: cuda:0,1,2 or cuda:all (cpu,cpu: two replicas on the CPU).
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: Devices,
    /// Number format: f32, f16 or bf16 [default: f32 on cpu and wgpu, bf16 on cuda].
    #[arg(long, global = true, value_name = "FORMAT")]
    pub dtype: Option<FloatFormat>,
    /// What the CPU multiplies: f32, or bf16 (weights and activations rounded, sums in f32; for processors with AVX-512
    /// BF16).
    #[arg(long, global = true, default_value = "f32", value_name = "FORMAT")]
    pub compute_dtype: Products,
    /// Weights in 8 bits on the CPU: off, drafts (an LM head for drafts alone; the text stays the same) or all.
    #[arg(long, global = true, default_value = "off", value_name = "WHICH")]
    pub int8: Int8,
    /// Seed of all chance.
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// CPU threads [default: all cores].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Exactly one JSON document on standard output, also for errors.
    #[arg(long, global = true)]
    pub json: bool,
    /// Report nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Report more.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// No progress bars.
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// Never use the network.
    #[arg(long, global = true)]
    pub offline: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at devices, memory, disk and cache; exit 1 with a hint per problem.
    Doctor,
    /// Bring a model into the Hugging Face cache and print its folder.
    Fetch(Fetch),
    /// Describe a model or heads: architecture, sizes, number formats, problems.
    Inspect(Inspect),
    /// Write hidden states and logits of a list of token ids to a safetensors file.
    Logits(Logits),
    /// Answer a prompt.
    Generate(Generate),
    /// Talk with a model; accepted drafts are shown in colour.
    Chat(Chat),
    /// Let a model answer prompts, and store its tokens as training shards.
    Distill(Distill),
    /// Compute the hidden states that a training will read, ahead of it.
    Features(Features),
    /// Fit draft heads to a frozen model.
    Train(Fit),
    /// Fit several methods to the same answers, calibrate and measure them all, and print one table.
    Compare(Fit),
    /// Plain and drafted decoding side by side: speed, acceptance, where the time goes, whether the text is the same.
    Bench(Bench),
    /// Compare drafted with plain text, token for token.
    Verify(Verify),
    /// Trees: calibrate one for heads on this machine, or show one.
    #[command(subcommand)]
    Tree(TreeCommand),
    /// The analysis of speculative decoding: which chain or tree pays, from measured acceptance, costs and step times.
    Plan(Plan),
    /// Write heads in another engine's format, with a model card.
    Export(Export),
    /// Read heads from a PyTorch file and write them as safetensors.
    Convert(Convert),
    /// Write dialogues of the synthetic corpus, or check a model's answers to them.
    Synth(Synth),
    /// Fit a small Llama from scratch.
    Pretrain(Fit),
    /// The main job on the model that comes along: distil, train, calibrate, measure, verify.
    Demo(Demo),
}

#[derive(Debug, Args)]
pub struct Fetch {
    /// A repo id on the hub, `owner/name` or `owner/name@revision`.
    #[arg(value_name = "REPO")]
    pub repo: String,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// A model or heads folder.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct Logits {
    /// A model folder or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    /// Token ids, separated by commas.
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub ids: String,
    /// The file to write: `hidden [n, d]` after the final norm and `logits [n, V]`, in f32.
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

#[derive(Debug, Args)]
pub struct Generate {
    /// A model folder or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// Acceptance rule: auto (greedy at temperature 0, sampling above), greedy, sampling, nucleus, typical[:E,D], …
    #[arg(long, default_value = "auto", value_name = "R")]
    pub accept: RuleChoice,
    #[command(flatten)]
    pub prompt: Prompt,
    /// Use the prompt as text, not as a user turn of the model's chat template.
    #[arg(long)]
    pub raw: bool,
    /// A system message for the chat template.
    #[arg(long, value_name = "S", conflicts_with_all = ["raw", "ids"])]
    pub system: Option<String>,
    /// New tokens at most [default: 256, or what the context has room for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: Option<u32>,
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
    /// Print token ids instead of text.
    #[arg(long)]
    pub print_ids: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Prompt {
    /// The prompt.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// The prompt as token ids, separated by commas, used as they are.
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub ids: Option<String>,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// The model to draft for.
    #[arg(long, default_value = "checkpoints/tiny", value_name = "M")]
    pub model: String,
    /// Prompts for it to answer.
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    pub dialogues: u32,
    /// Where to put data and heads.
    #[arg(long, default_value = "checkpoints/demo", value_name = "DIR")]
    pub dir: PathBuf,
}

/// Options of the long jobs.
#[derive(Debug, Args)]
pub struct Fit {
    /// The config file.
    #[arg(short, long, value_name = "C")]
    pub config: PathBuf,
    /// Config keys to override.
    #[arg(value_name = "KEY.PATH=VALUE")]
    pub overrides: Vec<String>,
    /// Resume the run in this folder.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<PathBuf>,
    /// Report the plan, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `gorgon features`.
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
pub struct Distill {
    /// The config file.
    #[arg(short, long, value_name = "C")]
    pub config: PathBuf,
    /// Config keys to override.
    #[arg(value_name = "KEY.PATH=VALUE")]
    pub overrides: Vec<String>,
    /// Answer one part of N only, as one of N machines: conversations whose number is I modulo N. When all parts are
    /// in the output folder, the same command without this joins them.
    #[arg(long, value_name = "I/N", conflicts_with = "preview")]
    pub shard: Option<Part>,
    /// Show this many conversations with the tokens to be trained on, and write nothing.
    #[arg(long, value_name = "N")]
    pub preview: Option<usize>,
    /// Resume an interrupted job. This is the default: the output folder records what is done.
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

#[derive(Debug, Args)]
pub struct Export {
    /// The run folder of a training, or a folder of heads.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The format: medusa-v1, medusa-v2, tgi, vllm-medusa, merged, eagle, eagle3, speculators or hydra.
    #[arg(long, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// The folder to write; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// The model the heads are for, if they do not say or it has moved.
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
}

#[derive(Debug, Args)]
pub struct Convert {
    /// A PyTorch file (.pt, .pth, .bin), or the folder that it is in.
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// The folder to write; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct Chat {
    /// A model folder or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// Say this, print the answer, and end.
    #[arg(short, long, value_name = "P", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// A system message.
    #[arg(long, value_name = "S")]
    pub system: Option<String>,
    /// New tokens in an answer at most.
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: u32,
    /// Acceptance rule, as of generate.
    #[arg(long, default_value = "auto", value_name = "R")]
    pub accept: RuleChoice,
    /// 0 takes the likeliest token; 1 samples from the model as it is.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_hyphen_values = true)]
    pub temperature: f64,
    /// Sample from the likeliest tokens that hold this much probability.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub top_p: Option<f64>,
}
