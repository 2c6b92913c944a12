//! How to fit.

use crate::optimizer::Optimizer;
use crate::schedule::Schedule;

/// Settings of a fitting.
#[derive(Clone, Copy, Debug)]
pub struct FitSettings {
    /// Learning rate.
    pub schedule: Schedule,
    /// Optimizer.
    pub optimizer: Optimizer,
    /// Bound on the global norm of a step's gradients.
    pub max_grad_norm: f64,
    /// Steps between reports.
    pub log_every: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Checkpoints to keep beside the best one.
    pub save_total_limit: usize,
    /// Seed of the initial parameters.
    pub seed: u64,
    /// Whether the parameters before the first step are evaluated and kept too, and the best ones are those of the most
    /// [acceptance](crate::evaluation::Metrics::acceptance). So nothing is published that accepts less than the start.
    pub keep_start: bool,
    /// True if there are held-out positions to evaluate. Without any, the newest checkpoint is the best one.
    pub evaluates: bool,
    /// Bytes that fitting may take: parameters, moments, gradients and micro-batches at work.
    pub memory_limit: Option<u64>,
}
