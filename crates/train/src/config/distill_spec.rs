//! What a config file says of DistillSpec.

use crate::error::TrainError;
use gorgon_kernels::linear_divergence::Divergence;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a draft model is fitted to a target (Zhou et al. 2024).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DistillSpecConfig {
    /// The draft model to begin with: a folder. It has no default.
    pub draft: PathBuf,
    /// What is to become small.
    pub divergence: Measure,
    /// The β of `jsd`, between 0 and 1.
    pub beta: f32,
    /// Whose answers it is measured on.
    pub answers: Answers,
    /// With `draft`: steps between one writing of answers and the next.
    pub every: u64,
    /// With `draft`: new tokens of an answer at most.
    pub max_new_tokens: usize,
    /// With `draft`: the temperature at which the draft model writes.
    pub temperature: f64,
}

impl Default for DistillSpecConfig {
    fn default() -> Self {
        Self {
            draft: PathBuf::new(),
            divergence: Measure::Fkl,
            beta: 0.5,
            answers: Answers::Draft,
            every: 50,
            max_new_tokens: 128,
            temperature: 1.0,
        }
    }
}

/// A divergence by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Forward KL, `KL(p ‖ q)`.
    Fkl,
    /// Reverse KL, `KL(q ‖ p)`.
    Rkl,
    /// Jensen-Shannon, generalised by β.
    Jsd,
    /// Total variation: the share of drafts that is rejected.
    Tvd,
}

/// Whose answers a draft model is fitted on. The target's distribution is what it is fitted to in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// Those of the shards: the target's own, or the data's, as they were distilled.
    Data,
    /// The draft model's own, written anew every so many steps.
    Draft,
}

impl DistillSpecConfig {
    /// The divergence.
    pub fn divergence(&self) -> Divergence {
        match self.divergence {
            Measure::Fkl => Divergence::ForwardKl,
            Measure::Rkl => Divergence::ReverseKl,
            Measure::Jsd => Divergence::JensenShannon(self.beta),
            Measure::Tvd => Divergence::TotalVariation,
        }
    }

    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |key: &str, value: String, reason: &str| {
            Err(TrainError::Setting { key: format!("distill_spec.{key}"), value, reason: reason.into() })
        };
        if self.draft.as_os_str().is_empty() {
            return bad("draft", "\"\"".into(), "it has to name the folder of a draft model");
        }
        if !(self.beta > 0.0 && self.beta < 1.0) {
            return bad("beta", self.beta.to_string(), "it has to be between 0 and 1");
        }
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return bad("temperature", self.temperature.to_string(), "it has to be a number, 0 or more");
        }
        let whole = [("every", self.every), ("max_new_tokens", self.max_new_tokens as u64)];
        match whole.into_iter().find(|(_, n)| *n == 0) {
            Some((key, n)) => bad(key, n.to_string(), "it has to be at least 1"),
            None => Ok(()),
        }
    }
}
