//! Errors of training.

use gorgon_draft::settings::{SettingsError, SettingsErrors};
use gorgon_runs::RunError;
use std::any::Any;
use std::path::PathBuf;

/// An error of training.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The run folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Wrong settings of a config, a line for each.
    #[error(transparent)]
    Settings(#[from] SettingsErrors),
    /// A loss that is not finite.
    #[error("step {step}: the loss is not finite, first at {place}")]
    NotFinite {
        /// The step, counted from 0.
        step: u64,
        /// The shard and row, or whatever names the data.
        place: String,
    },
    /// Gradients that are not finite although the losses are.
    #[error("step {step}: the gradients are not finite")]
    Overflow {
        /// The step, counted from 0.
        step: u64,
    },
    /// One conversation that does not fit into memory.
    #[error(
        "{place}: this conversation of {tokens} tokens does not fit into memory: it takes {} at work{}{}; \
         training.max_seq_len = {} would fit",
        shown(*.needed), share(*.available), because(.reported), longest(*.tokens, *.needed, *.available)
    )]
    Memory {
        /// The shard and row, or whatever names the data.
        place: String,
        /// Its tokens.
        tokens: usize,
        /// Bytes that it takes beside parameters, moments and gradients.
        needed: u64,
        /// Bytes available to it, where that is known.
        available: Option<u64>,
        /// The device's message, empty if there is none.
        reported: String,
    },
    /// A checkpoint that cannot be used.
    #[error("{}: {reason}", .path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Another replica failed, so this one cannot continue.
    #[error("another device or process of this training failed")]
    Ended,
    /// Wrong data, or a model that does not fit.
    #[error("{0}")]
    Data(String),
}

impl From<SettingsError> for TrainError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error.into())
    }
}

/// A file or folder that cannot be read or written.
pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> TrainError + '_ {
    move |source| TrainError::Run(RunError::Io { path: path.into(), source })
}

/// ` of 3.0 MB that it may take`.
fn share(available: Option<u64>) -> String {
    available.map_or_else(String::new, |available| format!(" of {} that it may take", shown(available)))
}

fn because(reported: &str) -> String {
    if reported.is_empty() { String::new() } else { format!(" ({reported})") }
}

/// Tokens that would fit, since memory grows with them; half of them if the available memory is not known.
fn longest(tokens: usize, needed: u64, available: Option<u64>) -> usize {
    let share = available.map_or(0.5, |available| available as f64 / needed.max(1) as f64);
    // A tenth less, since not everything grows alike.
    ((tokens as f64 * share * 0.9) as usize).max(2)
}

/// `12.3 MB`, or `4.5 kB` below one.
pub(crate) fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> Option<String> {
    panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}
