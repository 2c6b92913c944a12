//! Options of `gorgon store`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Stores of past answers and documents.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Build a store from texts, conversations or shards: what suffix:STORE and rest:STORE draft from.
    Build(StoreBuild),
    /// Describe a store: tokens, documents, tokenizer, whether it is as it was written.
    Inspect(StoreInspect),
    /// Save the answers that a running gorgon serve keeps to draft from (suffix:live) as a store.
    Save(StoreSave),
}

/// Options of `gorgon store build`.
#[derive(Debug, Args)]
pub struct StoreBuild {
    /// Text files, each a document; files of prompts and answers (JSON, JSONL, Parquet, or hf://datasets/OWNER/NAME);
    /// folders of shards. The last name is that of the store to write.
    #[arg(value_name = "FILES OUT", required = true, num_args = 1..)]
    pub paths: Vec<PathBuf>,
    /// A model folder, a GGUF file or a repo id: its tokenizer and chat template make the tokens.
    #[arg(long, value_name = "M")]
    pub model: String,
}

/// Options of `gorgon store inspect`.
#[derive(Debug, Args)]
pub struct StoreInspect {
    /// A store.
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
}

/// Options of `gorgon store save`.
#[derive(Debug, Args)]
pub struct StoreSave {
    /// The server's address, such as http://127.0.0.1:8080. GORGON_API_KEY is its key.
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// The store to write.
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
}
