//! Why a config cannot be used.

use std::path::PathBuf;

/// Why a config cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is no JSON object.
    #[error("{path}: not a JSON object: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Message of the parser.
        reason: String,
    },
    /// A value is missing, of the wrong type or out of range.
    #[error("{path}: {reason}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Which value and what is wrong with it.
        reason: String,
    },
}
