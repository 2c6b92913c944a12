//! The command line as it is typed.

mod applies;
mod configs;
mod dev;
mod draft;
mod fit;
mod heads;
mod measuring;
mod quantize;
mod replay;
mod runs;
mod serve;
mod skip;
mod spellings;
mod store;
mod sweep;

pub use applies::check;
pub use configs::{ConfigCommand, Init};
pub use dev::{DevCommand, Features, GpuPart, GpuShape, Logits, Man, Suite, SuiteDevice, Synth, T5, Trajectories};
pub use draft::Draft;
pub use fit::{Fit, Train};
pub use measuring::{Bench, Calibrate, Plan, Sequoia, Show, TreeCommand, Verify};
pub use quantize::Quantize;
pub use replay::Replay;
pub use runs::{CompareRuns, ListRuns, OneRun, RunsCommand};
pub use serve::{Learn, Serve};
pub use skip::SkipSearch;
pub use spellings::today;
pub use store::StoreCommand;
pub use sweep::Sweep;

use clap::{Args, Parser, Subcommand};
use gorgon_core::accept::RuleChoice;
use gorgon_model::device::{ActivationBits, DraftWeights, FloatFormat, Products, Weights};
use gorgon_workflows::devices::Devices;
use gorgon_workflows::distill::Part;
use gorgon_workflows::export::ExportFormat;
use std::path::PathBuf;

/// The command line. Options take negative numbers as values, so that their own parsers say what is wrong with them.
pub fn program() -> clap::Command {
    fn with_negatives(command: clap::Command) -> clap::Command {
        let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        let takes = |option: &clap::Arg| !option.is_positional() && option.get_action().takes_values();
        let command = command.mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg });
        names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_negatives))
    }
    with_negatives(<Cli as clap::CommandFactory>::command())
}

/// Trains draft heads (Medusa, Hydra, EAGLE, MTP and others) for a language model and decodes with them, losslessly.
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
    /// Device: auto, cpu, cuda[:INDEX] or wgpu; cuda:0+1 has the first layers on one GPU and the others on the next.
    /// train and pretrain divide their work among several devices of one kind: cuda:0,1,2 or cuda:all (cpu,cpu: two
    /// replicas on the CPU).
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE", env = "GORGON_DEVICE")]
    pub device: Devices,
    /// Number format: f32, f16 or bf16 [default: f32 on cpu and wgpu, bf16 on cuda].
    #[arg(long, global = true, value_name = "FORMAT", env = "GORGON_DTYPE")]
    pub dtype: Option<FloatFormat>,
    /// Number format of the CPU's matmuls: f32, or bf16 (weights and activations rounded, sums in f32; for processors
    /// with AVX-512 BF16).
    #[arg(long, global = true, default_value = "f32", value_name = "FORMAT")]
    pub compute_dtype: Products,
    /// Weights: stored (as --dtype says), int8 or int4 (rounded: another model, slightly). The CPU multiplies them in
    /// integers, CUDA with activations in --dtype.
    #[arg(long, global = true, default_value = "stored", value_name = "FORMAT")]
    pub weights: Weights,
    /// Weights on the CPU that only drafts are made with: stored, or int8 (an LM head for drafts, a draft model; the
    /// text stays the same).
    #[arg(long, global = true, default_value = "stored", value_name = "FORMAT")]
    pub draft_weights: DraftWeights,
    /// Bits of what weights in integers are multiplied with: 8, 16, or 32 for no rounding [default: 8, and 32 for a
    /// quantised checkpoint].
    #[arg(long, global = true, value_name = "BITS")]
    pub activation_bits: Option<ActivationBits>,
    /// Seed of all randomness; it replaces the config's own seed, or seeds [default: the config's, otherwise 0].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// A variable for the model's chat template, as in enable_thinking=false (repeatable).
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = gorgon_text::variables::parse)]
    pub template_var: Vec<(String, serde_json::Value)>,
    /// CPU threads [default: all cores].
    #[arg(long, global = true, value_name = "N", env = "GORGON_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Positions of the key/value cache: prompt and answer must fit [default: as many as a request needs, at most the
    /// model's context].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub context: Option<u32>,
    /// Print exactly one JSON document on stdout, also for errors.
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub color: clap::ColorChoice,
    /// Report nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log details to stderr, and the causes of errors. GORGON_LOG selects what is logged, as RUST_LOG does.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Show no progress bars.
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// Never use the network.
    #[arg(long, global = true, env = "HF_HUB_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check devices, memory, disk and cache, and whether drafting pays; exit 1 with a hint per problem.
    Doctor(Doctor),
    /// Download a model into the Hugging Face cache and print its folder.
    Fetch(Fetch),
    /// Describe a model, heads, a run, a dataset or a tree: kind, sizes, number formats, problems.
    Inspect(Inspect),
    /// Answer a prompt.
    Generate(Generate),
    /// Chat with a model; accepted drafts are shown in colour.
    Chat(Chat),
    /// Serve a model over HTTP as OpenAI does: drafted, batched, streamed and measured.
    Serve(Serve),
    /// Let a model answer prompts, and store its tokens as training shards.
    Distill(Distill),
    /// Train draft heads on a frozen model.
    Train(Train),
    /// Check config files; print their schemas.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write commented configs for a model and a file of prompts.
    Init(Init),
    /// Train several methods on the same answers, calibrate and measure them all, and print one table.
    Compare(Fit),
    /// Measure plain and drafted decoding side by side: speed, acceptance, time per part, equality of the text.
    Bench(Bench),
    /// Compare drafted with plain text, token for token.
    Verify(Verify),
    /// Calibrate, compute, show or analyse token trees.
    #[command(subcommand)]
    Tree(TreeCommand),
    /// Write heads in another engine's format, with a model card; weights in bf16 unless --dtype says otherwise.
    Export(Export),
    /// Write a model in 8 or 4 bits, as compressed-tensors, with a report of what it costs.
    Quantize(Quantize),
    /// Build and describe stores of past answers and documents, to draft from.
    #[command(subcommand)]
    Store(StoreCommand),
    /// List, show and compare run folders, and find their plots.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Run the whole loop on the embedded model: distil, train, calibrate, measure, verify.
    Demo(Demo),
    /// Print a completion script for a shell.
    Completions(Completions),
    /// Tools for engineers: raw logits, feature caches, synthetic data, pretraining, suites and sweeps.
    #[command(subcommand)]
    Dev(DevCommand),
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// A model: with --heads, also predict whether drafting pays with both on this machine.
    #[arg(long, value_name = "M", requires = "heads")]
    pub model: Option<String>,
    /// Draft heads for the model.
    #[arg(long, value_name = "H", requires = "model")]
    pub heads: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "HF_TOKEN is the token for repositories with restricted access; HF_HOME is the folder of the \
                        cache [default: ~/.cache/huggingface]; HF_ENDPOINT is the address of the hub [default: \
                        https://huggingface.co].")]
pub struct Fetch {
    /// A repo id on the hub, `owner/name` or `owner/name@revision`.
    #[arg(value_name = "REPO")]
    pub repo: String,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// A model, draft heads (also a PyTorch file), a run folder, a dataset, hidden states, or the file of a tree.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "GORGON_STEPS says how steps are taken on a GPU: recorded, which is the default where it is \
                        possible, or launched.")]
pub struct Generate {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// Acceptance rule: auto (greedy at temperature 0, coupled above), greedy, coupled, sampling, block, traversal, typical[:E,D], …
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
    /// 0 takes the top-1 token; 1 samples from the model as it is.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_hyphen_values = true)]
    pub temperature: f64,
    /// Sample from the top tokens that hold this much probability.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub top_p: Option<f64>,
    /// Sample from this many top tokens.
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
    /// The prompt; - reads it from stdin.
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
    #[arg(long, default_value_t = 6000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    pub dialogues: u32,
    /// Where to put data and heads.
    #[arg(long, default_value = "checkpoints/demo", value_name = "DIR")]
    pub dir: PathBuf,
    /// Parameters of the body in which the last part decodes: the same model, made so large that its weights come from
    /// memory. 0 leaves that part out.
    #[arg(long, default_value_t = 110_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000_000_000))]
    pub grow: u64,
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
    /// With --dry-run: plan for this many new tokens in all [default: as many as the config allows].
    #[arg(long, value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..))]
    pub assume_tokens: Option<u64>,
    /// With --dry-run: predict hours for a device that reads its memory at this rate, in 10^9 bytes per second.
    #[arg(long, value_name = "RATE", requires = "dry_run", value_parser = fit::positive)]
    pub assume_bandwidth: Option<f64>,
    /// Print the resolved config as TOML, and do nothing.
    #[arg(long, conflicts_with = "dry_run")]
    pub print_config: bool,
}

#[derive(Debug, Args)]
pub struct Export {
    /// The run folder of a training, a folder of heads, or a PyTorch file of heads.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The format: medusa-v1, medusa-v2, tgi, vllm-medusa, merged, eagle, eagle3, speculators, hydra, mtp, dflash,
    /// kangaroo, probes, or safetensors
    /// (a PyTorch file as it is; nothing in it is executed).
    #[arg(long, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// The folder to write; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// The model the heads are for, if they do not say or it has moved.
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Upload the result to this repository of the hub, which is created if there is none. Needs HF_TOKEN and a gorgon
    /// built with --features push.
    #[arg(long, value_name = "OWNER/NAME")]
    pub push: Option<String>,
    /// With --push: nobody else may see the repository.
    #[arg(long, requires = "push")]
    pub private: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "GORGON_HISTORY names the file that keeps what was typed; if it is empty, nothing is kept.")]
pub struct Chat {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M", required_unless_present = "url")]
    pub model: Option<String>,
    /// Chat with the server at this address instead, such as http://127.0.0.1:8080. GORGON_API_KEY is its key.
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "heads", "drafter", "tree", "accept", "learn"])]
    pub url: Option<String>,
    #[command(flatten)]
    pub draft: Draft,
    /// Send this message, print the answer, and end; - reads it from stdin.
    #[arg(short, long, value_name = "P", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// A system message.
    #[arg(long, value_name = "S")]
    pub system: Option<String>,
    #[command(flatten)]
    pub learn: Learn,
    /// New tokens in an answer at most.
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: u32,
    /// Acceptance rule, as of generate.
    #[arg(long, default_value = "auto", value_name = "R")]
    pub accept: RuleChoice,
    /// 0 takes the top-1 token; 1 samples from the model as it is.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_hyphen_values = true)]
    pub temperature: f64,
    /// Sample from the top tokens that hold this much probability.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub top_p: Option<f64>,
    /// Sample from this many top tokens.
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
}

#[cfg(test)]
mod tests;
