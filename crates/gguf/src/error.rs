//! Why a GGUF file cannot be used.

use std::path::PathBuf;

/// Why a GGUF file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is damaged, or holds what is not supported.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Which value and what is wrong with it.
        reason: String,
    },
    /// A folder holds several files.
    #[error("{folder}: {count} GGUF files and no safetensors; name one of them, such as {first}")]
    Several {
        /// The folder.
        folder: PathBuf,
        /// Number of files.
        count: usize,
        /// The first of them.
        first: PathBuf,
    },
}
