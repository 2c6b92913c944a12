//! Why fitting stops.

use gorgon_runs::RunError;
use std::path::PathBuf;

/// Why fitting stops.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The run folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A setting.
    #[error("{key} = {value}: {reason}")]
    Setting {
        /// Its key in the config.
        key: String,
        /// What it was set to.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A loss that is no number.
    #[error("step {step}: the loss is not finite, first at {place}")]
    NotFinite {
        /// The step, counted from 0.
        step: u64,
        /// The shard and row, or whatever names the data.
        place: String,
    },
    /// Gradients that are no numbers although the losses are.
    #[error("step {step}: the gradients are not finite")]
    Overflow {
        /// The step, counted from 0.
        step: u64,
    },
    /// A checkpoint of something else.
    #[error("{}: {reason}", .path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Anything about the data or the model that is not as it has to be.
    #[error("{0}")]
    Data(String),
}

/// A file or folder that cannot be read or written.
pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> TrainError + '_ {
    move |source| TrainError::Run(RunError::Io { path: path.into(), source })
}
