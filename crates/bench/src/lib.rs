//! Measuring. Whatever is compared runs in one process, in alternating order, on the same prompts.

pub mod allocations;
pub mod calibrate;
pub mod distribution;
pub mod lossless;
pub mod measure;
mod observed;
pub mod pass_times;
pub mod probe;
pub mod record;
pub mod replay;
pub mod rows;
pub mod skip_search;
pub mod step_times;
pub mod suite;
pub mod sweep;

use statrs::distribution::{ContinuousCDF, StudentsT};

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
        /// Reason for the failure.
        reason: String,
    },
    /// Nothing to measure.
    #[error("{0}")]
    Empty(String),
}

/// The middle of some numbers, or the mean of the two in the middle; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

/// The middle of some times, or the lower one of the two in the middle: what disturbs a measurement makes it longer.
/// `None` of none.
pub fn lower_median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len().checked_sub(1)? / 2).copied()
}

/// The mean of some numbers; NaN of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half the width of the 95 % interval of a mean, `t · s / √n` with Student's `t` for `n - 1` degrees of freedom;
/// `None` of fewer than two numbers.
pub fn half_width_95(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|&n| n > 0)? as f64;
    let (n, mean) = (values.len() as f64, mean(values));
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975);
    Some(t * (variance / n).sqrt())
}

#[cfg(test)]
mod tests;
