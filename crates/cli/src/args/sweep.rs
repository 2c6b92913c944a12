//! `gorgon dev sweep`.

use super::draft::Draft;
use clap::Args;
use gorgon_bench::sweep::Family;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of `gorgon dev sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// The values of α.
    #[arg(value_name = "alpha=A1,A2,…")]
    pub range: SweepRange,
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// A file of prompts with the one right answer to each, JSONL `{"prompt": …, "answer": …}`; held-out questions of
    /// the synthetic corpus if there is none.
    #[arg(long, value_name = "F")]
    pub prompts: Option<PathBuf>,
    /// Prompts at most.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// New tokens at most.
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: u32,
    /// Rules without their α, separated by commas: chow, diff, opt, token-v1, token-v2, token-v3, lossy, lossy-greedy,
    /// bild, bild:FB, top-beta, top-beta:B [default: all].
    #[arg(long, value_name = "R", value_delimiter = ',')]
    pub accept: Vec<Family>,
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
    /// Draw quality against rejections and against speed into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Rounds over all prompts.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Also write everything, raw rows included, as JSON.
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// `alpha=A1,A2,…`.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRange {
    /// The values of α.
    pub alphas: Vec<f64>,
}

impl FromStr for SweepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("alpha=").ok_or("expected alpha=A1,A2,…")?;
        let alpha = |text: &str| match text.trim().parse::<f64>() {
            Ok(alpha) if alpha.is_finite() && alpha >= 0.0 => Ok(alpha),
            _ => Err(format!("{text:?} is no number of at least 0")),
        };
        Ok(Self { alphas: values.split(',').map(alpha).collect::<Result<_, _>>()? })
    }
}
