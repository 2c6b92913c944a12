//! What is fitted to what, as the training loop sees it.

use crate::error::TrainError;
use crate::micro_batch::Size;
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use gorgon_runs::tensors::Stored;
use serde_json::{Map, Value};
use std::ops::Range;

/// What steps are rehearsed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The most that they can take in memory.
    Memory,
    /// The time that they will take when their turn comes, with parameters that were fitted until then.
    Time,
}

/// Something to fit.
pub trait Objective: Sync {
    /// A micro-batch.
    type Batch: Send + Sync;

    /// Parameters before the first step.
    fn parameters(&self, seed: u64) -> Vec<Parameter>;

    /// Tensors that belong to the parameters in a checkpoint and are not fitted.
    fn constants(&self) -> Vec<Stored> {
        vec![]
    }

    /// Told before every step, and once more of the step that a resumed run goes on with: for data that is made with
    /// the parameters themselves.
    ///
    /// # Errors
    /// When it cannot be made.
    fn prepare(&self, _step: u64, _parameters: &[Parameter]) -> Result<(), TrainError> {
        Ok(())
    }

    /// What [`Self::prepare`] would make for these steps alone, for a rehearsal: it is kept, beside what was made so
    /// before, until [`Self::forget`] is called. Returns the seconds that it takes for each step in a run.
    ///
    /// # Errors
    /// When it cannot be made.
    fn rehearse(&self, _steps: &[u64], _purpose: Purpose, _parameters: &[Parameter]) -> Result<f64, TrainError> {
        Ok(0.0)
    }

    /// Drops what was made for a rehearsal.
    fn forget(&self) {}

    /// The micro-batches of a step: a function of its number alone.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn batches(&self, step: u64) -> Result<Vec<Self::Batch>, TrainError>;

    /// What a micro-batch weighs in each of the loss's means: summed over a step, these are what sums of losses are
    /// divided by, so that a step's loss does not depend on how it is cut into micro-batches.
    fn weights(&self, batch: &Self::Batch) -> Vec<f64>;

    /// A micro-batch's part of the step's loss and of its gradients, given the weights of the whole step.
    ///
    /// # Errors
    /// When the backbone fails.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Self::Batch, totals: &[f64]) -> Result<Gradients, TrainError>;

    /// Runs of steps that take alike: all of them, one after another, from the first of `steps` to the last.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        std::iter::once(0..steps).collect()
    }

    /// How large a micro-batch is: what one that does not fit into memory is known by.
    fn size(&self, _batch: &Self::Batch) -> Size {
        Size::default()
    }

    /// A micro-batch in two, in its order; `None` for a single conversation.
    fn halves(&self, _batch: &Self::Batch) -> Option<(Self::Batch, Self::Batch)> {
        None
    }

    /// A micro-batch of one conversation, as an error names it.
    fn place(&self, _batch: &Self::Batch) -> String {
        "a micro-batch".into()
    }

    /// What is measured on held-out data, by name; the number under `key` is the better the lower it is.
    ///
    /// # Errors
    /// When the backbone fails.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError>;

    /// A parameter's learning rate at a step, relative to the schedule's.
    fn rate(&self, _parameter: &Parameter, _step: u64) -> f64 {
        1.0
    }

    /// A `config.json` to put beside the parameters of a checkpoint, so that it can be loaded as it is.
    fn document(&self) -> Option<Value> {
        None
    }
}

/// What one micro-batch yields.
#[derive(Debug)]
pub struct Gradients {
    /// Its part of the step's loss.
    pub loss: f64,
    /// Tokens read.
    pub tokens: usize,
    /// What else is counted, as sums to be divided by a weight: `(name, sum, weight)`.
    pub counts: Vec<(String, f64, f64)>,
    /// One gradient per parameter.
    pub gradients: Vec<Tensor<1>>,
    /// Where a loss was not finite.
    pub not_finite: Option<String>,
}

/// What was measured on held-out data.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// Named numbers.
    pub metrics: Map<String, Value>,
    /// Lower is better: names the best checkpoint.
    pub objective: f64,
}
