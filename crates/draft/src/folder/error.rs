//! Why heads cannot be loaded.

use gorgon_model::weights::WeightsError;
use std::path::PathBuf;

/// Why heads cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum HeadsError {
    /// The files.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A config that is no JSON.
    #[error("{}: {reason}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        reason: String,
    },
    /// A file that cannot be written.
    #[error("{}: {source}", .path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Not draft heads, or not of a kind that can be loaded.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The folder.
        path: PathBuf,
        /// Description of the content.
        reason: String,
    },
}
