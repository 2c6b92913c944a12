//! A training method as the training loop sees it.

use crate::error::TrainError;
use crate::evaluation::Metrics;
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use gorgon_runs::tensors::Stored;
use serde_json::Value;
use std::ops::Range;

/// The purpose of dry-run steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To measure the most memory that steps can take.
    Memory,
    /// To measure the time that steps will take, with parameters that were fitted until then.
    Time,
}

/// A training method: parameters, data, loss and gradients.
pub trait Objective: Sync {
    /// A micro-batch.
    type Batch: Send + Sync;

    /// Parameters before the first step.
    fn parameters(&self, seed: u64) -> Vec<Parameter>;

    /// Tensors that belong to the parameters in a checkpoint and are not fitted.
    fn constants(&self) -> Vec<Stored> {
        vec![]
    }

    /// Called before every step, for data that is made with the parameters themselves. A resumed run calls it once more
    /// for the step that it resumes with.
    ///
    /// # Errors
    /// When the data cannot be made.
    fn prepare(&self, _step: u64, _parameters: &[Parameter]) -> Result<(), TrainError> {
        Ok(())
    }

    /// Makes the data of these steps for a dry run, as [`Self::prepare`] would. It is kept, beside the data of earlier
    /// calls, until [`Self::end_dry_run`] is called. Returns its seconds for each step of a run.
    ///
    /// # Errors
    /// When the data cannot be made.
    fn prepare_dry_run(&self, _steps: &[u64], _purpose: Purpose, _parameters: &[Parameter]) -> Result<f64, TrainError> {
        Ok(0.0)
    }

    /// Drops the data of a dry run.
    fn end_dry_run(&self) {}

    /// The micro-batches of a step: a function of its number alone.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn batches(&self, step: u64) -> Result<Vec<Self::Batch>, TrainError>;

    /// The weight of a micro-batch in each of the loss's means, such as its number of labels. Sums of losses are
    /// divided by the sum of the weights over a step, so a step's loss does not depend on how it is cut into
    /// micro-batches.
    fn weights(&self, batch: &Self::Batch) -> Vec<f64>;

    /// A micro-batch's part of the step's loss and gradients. `totals` are the weights of the whole step.
    ///
    /// # Shapes
    /// `weights` and the gradients: one flat tensor for each of [`Self::parameters`].
    ///
    /// # Errors
    /// When the backbone fails.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Self::Batch, totals: &[f64]) -> Result<Gradients, TrainError>;

    /// Ranges of steps that take the same time and memory. Together they are `0..steps`, in order.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        std::iter::once(0..steps).collect()
    }

    /// Tokens and memory of a micro-batch.
    fn size(&self, _batch: &Self::Batch) -> Size {
        Size::default()
    }

    /// Bytes of data that are kept between steps for each of a step's micro-batches, at most.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// The two halves of a micro-batch, in order; `None` for a single conversation.
    fn halves(&self, _batch: &Self::Batch) -> Option<(Self::Batch, Self::Batch)> {
        None
    }

    /// The name of a micro-batch of one conversation in error messages.
    fn place(&self, _batch: &Self::Batch) -> String {
        "a micro-batch".into()
    }

    /// Measures the parameters on held-out data.
    ///
    /// # Errors
    /// When the backbone fails.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError>;

    /// A parameter's learning rate at a step, relative to the schedule's.
    fn rate(&self, _parameter: &Parameter, _step: u64) -> f64 {
        1.0
    }

    /// The `config.json` beside the parameters of a checkpoint, with which engines load it.
    fn document(&self) -> Option<Value> {
        None
    }
}

/// How large a micro-batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Tokens of its conversations.
    pub tokens: usize,
    /// Bytes that it has at work, beside parameters, moments and gradients.
    pub bytes: u64,
}

/// Loss and gradients of one micro-batch, or their sums over several.
#[derive(Clone, Debug, Default)]
pub struct Gradients {
    /// Its part of the step's loss.
    pub loss: f64,
    /// Tokens read.
    pub tokens: usize,
    /// Further means as sums and the weights to divide them by: `(name, sum, weight)`.
    pub counts: Vec<(String, f64, f64)>,
    /// One gradient per parameter.
    pub gradients: Vec<Tensor<1>>,
    /// The place of a loss that is not finite.
    pub not_finite: Option<String>,
}

impl Gradients {
    /// The sum of some micro-batches, in their order.
    pub(crate) fn sum(parts: Vec<Self>) -> Self {
        parts.into_iter().reduce(Self::plus).unwrap_or_default()
    }

    /// The sum of two micro-batches; `self` comes first.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.loss += other.loss;
        self.tokens += other.tokens;
        for (name, sum, weight) in other.counts {
            match self.counts.iter_mut().find(|(known, ..)| *known == name) {
                Some(known) => (known.1, known.2) = (known.1 + sum, known.2 + weight),
                None => self.counts.push((name, sum, weight)),
            }
        }
        self.gradients = self.gradients.into_iter().zip(other.gradients).map(|(a, b)| a + b).collect();
        self.not_finite = self.not_finite.or(other.not_finite);
        self
    }
}

/// Results on held-out data.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The measured numbers.
    pub metrics: Metrics,
    /// The number that names the best checkpoint: lower is better.
    pub objective: f64,
}
