//! Options of `gorgon quantize`.

use clap::Args;
use gorgon_workflows::quantize::Integers;
use std::path::PathBuf;

/// Options of `gorgon quantize`.
#[derive(Debug, Args)]
pub struct Quantize {
    /// A model folder or a repo id; its weights must be floats.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// The folder to write; it must not hold anything yet.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// int8 (a scale per output) or int4 (a scale per group of inputs).
    #[arg(long, value_name = "FORMAT")]
    pub to: Integers,
    /// int4: inputs that share a scale, 32, 64 or 128. Where it does not divide all widths, the next smaller size is
    /// taken; a matrix whose width 32 does not divide stays as it is [default: 128].
    #[arg(long, value_name = "N", value_parser = group)]
    pub group: Option<usize>,
    /// Take each scale from the greatest weight, without a search for the scale with the least error.
    #[arg(long)]
    pub no_search: bool,
    /// A file of prompts: report KL divergence and top-1 agreement with the model on them, and on answers beside them.
    #[arg(long, value_name = "F")]
    pub prompts: Option<PathBuf>,
    /// Prompts at most.
    #[arg(long, default_value_t = 64, value_name = "N", requires = "prompts", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Also report the SHA-256 of every matrix as it is read back: f32, little-endian, row after row.
    #[arg(long, conflicts_with = "dry_run")]
    pub hashes: bool,
    /// Report the plan, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

fn group(text: &str) -> Result<usize, String> {
    match text {
        "32" => Ok(32),
        "64" => Ok(64),
        "128" => Ok(128),
        _ => Err("expected 32, 64 or 128".into()),
    }
}
