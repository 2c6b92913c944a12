//! Why fitting stops.

use crate::micro_batch::shown;
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
    /// One conversation that does not fit into memory.
    #[error(
        "{place}: this conversation of {tokens} tokens does not fit into memory: it takes {} at work{}{}; \
         training.max_tokens = {} would fit",
        shown(*.needed), share(*.there), because(.said), longest(*.tokens, *.needed, *.there)
    )]
    Memory {
        /// The shard and row, or whatever names the data.
        place: String,
        /// Its tokens.
        tokens: usize,
        /// Bytes that it takes beside parameters, moments and gradients.
        needed: u64,
        /// Bytes that there are for it, where that is known.
        there: Option<u64>,
        /// What the device said, if it did.
        said: String,
    },
    /// A checkpoint of something else.
    #[error("{}: {reason}", .path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Another one of the replicas that fit together failed, so that this one cannot go on.
    #[error("another device or process that fits along failed")]
    Ended,
    /// Anything about the data or the model that is not as it has to be.
    #[error("{0}")]
    Data(String),
}

/// A file or folder that cannot be read or written.
pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> TrainError + '_ {
    move |source| TrainError::Run(RunError::Io { path: path.into(), source })
}

/// ` of 3.0 MB that it may take`.
fn share(there: Option<u64>) -> String {
    there.map_or_else(String::new, |there| format!(" of {} that it may take", shown(there)))
}

fn because(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

/// What would fit: memory grows with the tokens. Half of them where it is not known how much there is.
fn longest(tokens: usize, needed: u64, there: Option<u64>) -> usize {
    let share = there.map_or(0.5, |there| there as f64 / needed.max(1) as f64);
    // A tenth less, since not everything grows alike.
    ((tokens as f64 * share * 0.9) as usize).max(2)
}
