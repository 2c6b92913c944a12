//! Steps that are tried and forgotten: what they take tells what a run will take.

use super::step::Fitted;
use super::{FitSettings, Objective, Purpose};
use crate::error::TrainError;
use crate::world::World;
use std::time::Instant;

/// A fitting that nothing is kept of: no metrics, no checkpoints, and no other replica knows of it. It has all that a
/// real one has in memory: parameters, moments, gradients, their sum, micro-batches at work.
pub struct Rehearsal<'a, O: Objective> {
    objective: &'a O,
    settings: &'a FitSettings,
    fitted: Fitted,
}

impl<'a, O: Objective> Rehearsal<'a, O> {
    /// One that stands before the first step.
    pub fn new(objective: &'a O, settings: &'a FitSettings) -> Self {
        Self { objective, settings, fitted: Fitted::new(objective, settings) }
    }

    /// Makes what these steps need, which can then be taken in any order. Returns the seconds that it takes for each step
    /// in a run.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn prepare(&self, steps: &[u64], purpose: Purpose) -> Result<f64, TrainError> {
        self.objective.rehearse(steps, purpose, &self.fitted.parameters)
    }

    /// Takes the step of this number, for which everything is there. Returns its seconds.
    ///
    /// # Errors
    /// As of [`super::fit`]; a loss that is no number is for the run itself to report.
    pub fn step(&mut self, number: u64) -> Result<f64, TrainError> {
        let started = Instant::now();
        match self.fitted.step(self.objective, self.settings, &World::alone(), number, &mut |_| {}) {
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

impl<O: Objective> Drop for Rehearsal<'_, O> {
    fn drop(&mut self) {
        self.objective.forget();
    }
}
