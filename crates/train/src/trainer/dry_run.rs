//! Dry-run steps: memory and time are estimated from a few steps that are discarded.

use super::objective::{Objective, Purpose};
use super::settings::FitSettings;
use super::step::Fitted;
use crate::error::TrainError;
use crate::process_group::ProcessGroup;
use std::time::Instant;

/// A fitting that keeps nothing: it writes no metrics and no checkpoints, and exchanges nothing with other replicas. In
/// memory it has everything that a run has: parameters, moments, gradients, their sum, micro-batches at work.
pub struct DryRun<'a, O: Objective> {
    objective: &'a O,
    settings: &'a FitSettings,
    fitted: Fitted,
}

impl<'a, O: Objective> DryRun<'a, O> {
    /// A fitting before its first step.
    pub fn new(objective: &'a O, settings: &'a FitSettings) -> Self {
        Self { objective, settings, fitted: Fitted::new(objective, settings) }
    }

    /// Prepares these steps, which can then be taken in any order. Returns the seconds that this takes for each step of
    /// a run.
    ///
    /// # Errors
    /// When their data cannot be made.
    pub fn prepare(&self, steps: &[u64], purpose: Purpose) -> Result<f64, TrainError> {
        self.objective.prepare_dry_run(steps, purpose, &self.fitted.parameters)
    }

    /// Takes a step that was prepared. Returns its seconds.
    ///
    /// # Errors
    /// As of [`super::fit`], but a loss that is not finite is left for the run itself to report.
    pub fn step(&mut self, number: u64) -> Result<f64, TrainError> {
        let started = Instant::now();
        match self.fitted.step(self.objective, self.settings, &ProcessGroup::single(), number, &mut |_| {}) {
            Ok(_) | Err(TrainError::NotFinite { .. } | TrainError::Overflow { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Evaluates. Returns its seconds.
    ///
    /// # Errors
    /// As of [`Objective::evaluate`].
    pub fn evaluate(&self) -> Result<f64, TrainError> {
        let started = Instant::now();
        self.objective.evaluate(&self.fitted.parameters)?;
        Ok(started.elapsed().as_secs_f64())
    }
}

impl<O: Objective> Drop for DryRun<'_, O> {
    fn drop(&mut self) {
        self.objective.end_dry_run();
    }
}
