//! Why a checkpoint cannot be read.

use gorgon_runs::visible;
use std::path::PathBuf;

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The folder holds no safetensors checkpoint.
    #[error("{dir}: no model.safetensors and no model.safetensors.index.json{hint}")]
    NotFound {
        /// The folder.
        dir: PathBuf,
        /// Hint about the content.
        hint: &'static str,
    },
    /// A file cannot be opened or read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file is no valid safetensors file.
    #[error("{path}: not a valid safetensors file: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        reason: String,
    },
    /// The index is wrong.
    #[error("{path}: {reason}")]
    Index {
        /// The index file.
        path: PathBuf,
        /// Reason why it is refused.
        reason: String,
    },
    /// A GGUF file cannot be used.
    #[error(transparent)]
    Gguf(#[from] gorgon_gguf::GgufError),
    /// The tensors are not those that the config calls for.
    #[error("{dir}: the tensors do not fit config.json: {problems}")]
    Mismatch {
        /// The folder.
        dir: PathBuf,
        /// All missing, unexpected and wrong-shape tensors.
        problems: Problems,
    },
    /// The weights do not fit the storage type or the memory.
    #[error("{path}: tensor {tensor}: {reason}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Reason why it is refused.
        reason: String,
    },
}

/// Differences between a checkpoint's tensors and those its config calls for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Needed but absent.
    pub missing: Vec<String>,
    /// Present but not needed.
    pub unexpected: Vec<String>,
    /// Present with another shape or a type that is no float, with a description.
    pub wrong: Vec<String>,
}

impl Problems {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.wrong.is_empty()
    }
}

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lists = [("missing", &self.missing), ("unexpected", &self.unexpected), ("wrong", &self.wrong)];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(what, list)| format!("{} {what} ({})", list.len(), visible::listed(list)))
            .collect();
        f.write_str(&parts.join("; "))
    }
}
