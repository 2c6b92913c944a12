//! Options of the verbs that check and write configs.

use clap::{Args, Subcommand};
use gorgon_workflows::config::Kind;
use std::path::PathBuf;

/// Checks and schemas of configs.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of a kind of config.
    Schema {
        /// train, distill, compare or pretrain.
        #[arg(default_value = "train", value_name = "KIND")]
        kind: Kind,
    },
    /// Check a config file of any kind.
    Check {
        /// The config file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Config keys to override.
        #[arg(value_name = "KEY.PATH=VALUE")]
        overrides: Vec<String>,
    },
    /// Print the reference page of a kind of config, in Markdown.
    Reference {
        /// train, distill, compare or pretrain.
        #[arg(default_value = "train", value_name = "KIND")]
        kind: Kind,
    },
}

/// Options of `gorgon init`.
#[derive(Debug, Args)]
pub struct Init {
    /// A model folder, a GGUF file or a repo id.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// A file of prompts or conversations.
    #[arg(value_name = "PROMPTS")]
    pub prompts: PathBuf,
    /// The training method: medusa, medusa-2, hydra, eagle, eagle3, mtp, kangaroo, block, ppd, pass or space.
    #[arg(long, default_value = "medusa", value_name = "M")]
    pub method: String,
    /// The folder for distill.toml and train.toml.
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
}
