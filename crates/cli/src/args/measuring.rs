//! Verbs that measure.

use super::draft::Draft;
use clap::{Args, Subcommand};
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeChoice;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::Options;
use std::path::PathBuf;

/// Options that `bench`, `verify` and `tree calibrate` share.
#[derive(Clone, Debug, Args)]
pub struct Measure {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M", required = true)]
    pub model: Option<String>,
    #[command(flatten)]
    pub draft: Draft,
    /// A file of prompts.
    #[arg(long, value_name = "F")]
    pub prompts: PathBuf,
    /// User turns of each conversation; later ones follow the model's own answers.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub turns: u32,
    /// Prompts at most.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// New tokens at most.
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
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
    /// Continue past end tokens.
    #[arg(long)]
    pub ignore_eos: bool,
}

impl Measure {
    /// The options as jobs take them.
    ///
    /// # Errors
    /// When temperature, top-k or top-p make no sense.
    pub fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            model: self.model.clone().unwrap_or_default(),
            heads: self.draft.heads.clone(),
            drafter: self.draft.choice(),
            tree: self.draft.tree.clone(),
            prompts: self.prompts.clone(),
            turns: self.turns as usize,
            limit: self.limit as usize,
            max_new_tokens: self.max_new_tokens as usize,
            accept: self.accept,
            transform: Transform::new(self.temperature, self.top_k, self.top_p)?,
            ignore_eos: self.ignore_eos,
        })
    }
}

#[derive(Debug, Args)]
#[command(mut_arg("model", |model| model.required(false).required_unless_present("url")))]
pub struct Bench {
    #[command(flatten)]
    pub measure: Measure,
    /// Measure the server at this address instead, such as http://127.0.0.1:8080. GORGON_API_KEY is its key.
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "heads", "drafter", "tree", "accept", "python", "rounds", "turns"])]
    pub url: Option<String>,
    /// With --url: clients at once, in turn.
    #[arg(long, value_name = "N,N,…", default_value = "1,4,16,64", value_delimiter = ',', requires = "url",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: Vec<u16>,
    /// With --url: also plot throughput over clients, as SVG.
    #[arg(long, value_name = "F", requires = "url")]
    pub plot: Option<PathBuf>,
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

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub measure: Measure,
    /// Above temperature 0: sample N answers to each prompt and test their distribution. Coupled text is compared token
    /// for token unless this is given. Default with other rules: 4.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub enum TreeCommand {
    /// Measure accuracies and step times on this machine, and store the tree that should decode fastest with the heads.
    Calibrate(Box<Calibrate>),
    /// Take the optimal tree under the positional acceptance that a calibration measured, and store it with the heads.
    Sequoia(Sequoia),
    /// Draw a tree.
    Show(Show),
    /// Analyse which chain or tree pays, from measured acceptance, draft costs and step times.
    Plan(Plan),
}

#[derive(Debug, Args)]
pub struct Calibrate {
    #[command(flatten)]
    pub measure: Measure,
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

/// `gorgon tree plan`.
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
