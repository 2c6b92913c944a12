//! Options of `gorgon dev skip`.

use clap::Args;
use std::path::PathBuf;

/// Options of a search for sub-layers to leave out.
#[derive(Clone, Debug, Args)]
pub struct SkipSearch {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    /// A file of prompts.
    #[arg(long, value_name = "F")]
    pub prompts: PathBuf,
    /// The file to write, for --drafter skip:FILE.
    #[arg(long, value_name = "F")]
    pub out: PathBuf,
    /// Prompts at most.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// New tokens at most.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub max_new_tokens: u32,
    /// How often decoding is timed at most.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub evaluations: u32,
}
