//! Measuring. Whatever is compared runs in one process, in alternating order, on the same prompts.

pub mod calibrate;
pub mod distribution;
pub mod lossless;
pub mod measure;
pub mod record;
pub mod suite;
pub mod sweep;

/// Why a measurement stops.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Decoding.
    #[error(transparent)]
    Decode(#[from] gorgon_infer::DecodeError),
    /// The model.
    #[error(transparent)]
    Model(#[from] gorgon_model::decoder::ModelError),
    /// The tree.
    #[error(transparent)]
    Calibration(#[from] gorgon_core::tree::calibrated::CalibrationError),
    /// Another program that was to be measured beside the engine.
    #[error("{name}: {reason}")]
    Peer {
        /// Its command.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// Nothing to measure.
    #[error("{0}")]
    Empty(String),
}

/// The middle of some numbers (the lower one of two); `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}
