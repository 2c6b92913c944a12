//! Reports of the training loop: the rows of `metrics.jsonl`, and how fitting ended.

use crate::evaluation::Metrics;
use crate::parameters::Parameter;
use serde::{Serialize, Serializer};

/// A report of the training loop.
#[derive(Clone, Debug)]
pub enum Report {
    /// A step, as written to the metrics.
    Step(StepRecord),
    /// An evaluation, as written to the metrics.
    Evaluation(EvaluationRecord),
    /// A checkpoint was written after this step.
    Saved(u64),
    /// A message for the user.
    Note(String),
}

/// The row of a training step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRecord {
    /// Steps done.
    pub step: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Tokens read per second since the row before.
    pub tokens_per_second: f64,
    /// Seconds that the steps left will take at this speed.
    pub eta_seconds: f64,
    /// The step's loss.
    pub loss: f64,
    /// Norm of the gradients before they were clipped.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Means that the objective counts, by name.
    #[serde(flatten)]
    pub means: Means,
}

/// Named means, in the order in which the objective counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means(pub Vec<(String, f64)>);

impl Means {
    /// The mean of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, mean)| *mean)
    }
}

impl Serialize for Means {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, mean)| (name, mean)))
    }
}

/// The row of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationRecord {
    /// Steps done.
    pub step: u64,
    /// Results on held-out data.
    pub evaluation: Metrics,
}

/// Where the time of this process went, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Steps.
    pub fitting: f64,
    /// Evaluations.
    pub evaluating: f64,
    /// Checkpoints.
    pub saving: f64,
}

/// How fitting ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps done.
    pub step: u64,
    /// False if fitting was stopped before the last step.
    pub finished: bool,
    /// The fitted parameters.
    pub parameters: Vec<Parameter>,
    /// Where the time went.
    pub spent: Spent,
}
