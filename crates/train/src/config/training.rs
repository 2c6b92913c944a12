//! The `[training]` table.

use crate::error::TrainError;
use crate::optimizer::{Method, Optimizer};
use crate::schedule::Schedule;
use crate::trainer::FitSettings;
use serde::{Deserialize, Serialize};

/// The `[training]` table of every method.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Optimizer steps; 0 means `epochs` passes over the data.
    pub steps: u64,
    /// Passes over the data, where `steps` is 0.
    pub epochs: f64,
    /// Micro-batches whose gradients are summed in a step; on the CPU they run side by side.
    pub batches_per_step: usize,
    /// Tokens in a micro-batch, at most; a longer conversation has one of its own.
    pub batch_tokens: usize,
    /// Longest conversation; what is beyond is cut off.
    pub max_tokens: usize,
    /// Highest learning rate; the method's own where there is none.
    pub learning_rate: Option<f64>,
    /// Share of the steps over which the learning rate rises.
    pub warmup: f64,
    /// Last learning rate, relative to the highest.
    pub floor: f64,
    /// `adamw` or `muon`.
    pub optimizer: String,
    /// AdamW's decay rates.
    pub betas: (f64, f64),
    /// AdamW's epsilon.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Muon's learning rate relative to `learning_rate`.
    pub muon_factor: f64,
    /// Bound on the global norm of the gradients; the method's own where there is none.
    pub clip_norm: Option<f64>,
    /// Steps between reports.
    pub log_every: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Checkpoints to keep beside the best one.
    pub keep: usize,
    /// Megabytes that fitting may take: parameters, moments, gradients and micro-batches at work. Micro-batches that
    /// are beyond it are computed in halves.
    pub memory_limit_mb: Option<u64>,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            steps: 0,
            epochs: 1.0,
            batches_per_step: 2,
            batch_tokens: 2048,
            max_tokens: 2048,
            learning_rate: None,
            warmup: 0.05,
            floor: 0.0,
            optimizer: "adamw".into(),
            betas: (0.9, 0.95),
            epsilon: 1e-8,
            weight_decay: 0.0,
            muon_factor: 10.0,
            clip_norm: None,
            log_every: 10,
            eval_every: 100,
            save_every: 100,
            keep: 2,
            memory_limit_mb: None,
        }
    }
}

/// Highest learning rate and bound on the gradients' norm where nothing else is said.
pub(super) const RATES: (f64, f64) = (1e-3, 1.0);

impl Training {
    /// The same with a learning rate and a bound on the gradients' norm.
    #[must_use]
    pub fn with_rates(self, (learning_rate, clip_norm): (f64, f64)) -> Self {
        let learning_rate = Some(self.learning_rate.unwrap_or(learning_rate));
        Self { learning_rate, clip_norm: Some(self.clip_norm.unwrap_or(clip_norm)), ..self }
    }

    fn rates(&self) -> (f64, f64) {
        (self.learning_rate.unwrap_or(RATES.0), self.clip_norm.unwrap_or(RATES.1))
    }

    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |key: &str, value: String, reason: &str| {
            Err(TrainError::Setting { key: format!("training.{key}"), value, reason: reason.into() })
        };
        let (learning_rate, clip_norm) = self.rates();
        let positive = [("learning_rate", learning_rate), ("clip_norm", clip_norm), ("epsilon", self.epsilon)];
        if let Some((key, value)) = positive.into_iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            return bad(key, value.to_string(), "it has to be a number above 0");
        }
        let shares = [("warmup", self.warmup), ("floor", self.floor)];
        if let Some((key, value)) = shares.into_iter().find(|(_, v)| !(0.0..=1.0).contains(v)) {
            return bad(key, value.to_string(), "it has to be between 0 and 1");
        }
        if ![self.betas.0, self.betas.1].iter().all(|b| (0.0..1.0).contains(b)) {
            return bad("betas", format!("{:?}", self.betas), "both have to be at least 0 and below 1");
        }
        if self.steps == 0 && !(self.epochs.is_finite() && self.epochs > 0.0) {
            return bad("epochs", self.epochs.to_string(), "it has to be a number above 0 where steps is 0");
        }
        let weights = [("weight_decay", self.weight_decay), ("muon_factor", self.muon_factor)];
        if let Some((key, value)) = weights.into_iter().find(|(_, v)| !(v.is_finite() && *v >= 0.0)) {
            return bad(key, value.to_string(), "it has to be a number, 0 or more");
        }
        let sizes =
            [("batches_per_step", self.batches_per_step), ("batch_tokens", self.batch_tokens), ("keep", self.keep)];
        if let Some((key, value)) = sizes.into_iter().find(|(_, v)| *v == 0) {
            return bad(key, value.to_string(), "it has to be at least 1");
        }
        if self.max_tokens < 2 {
            return bad("max_tokens", self.max_tokens.to_string(), "it has to be at least 2");
        }
        self.method().map(|_| ())
    }

    fn method(&self) -> Result<Method, TrainError> {
        match self.optimizer.as_str() {
            "adamw" => Ok(Method::AdamW),
            "muon" => Ok(Method::Muon),
            other => Err(TrainError::Setting {
                key: "training.optimizer".into(),
                value: other.into(),
                reason: "expected adamw or muon".into(),
            }),
        }
    }

    /// How to fit, for data of which one pass takes `steps_per_epoch`.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn settings(&self, steps_per_epoch: u64, seed: u64) -> Result<FitSettings, TrainError> {
        self.check()?;
        let steps = match self.steps {
            0 => ((steps_per_epoch as f64 * self.epochs).round() as u64).max(1),
            steps => steps,
        };
        let warmup_steps = (steps as f64 * self.warmup).round() as u64;
        let optimizer = Optimizer {
            method: self.method()?,
            betas: self.betas,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            muon_factor: self.muon_factor,
            ..Optimizer::default()
        };
        Ok(FitSettings {
            schedule: Schedule { peak: self.rates().0, warmup_steps, steps, floor: self.floor, restart: None },
            optimizer,
            clip_norm: self.rates().1,
            log_every: self.log_every.max(1),
            eval_every: self.eval_every,
            save_every: self.save_every,
            keep: self.keep,
            seed,
            memory_limit: self.memory_limit_mb.map(|mb| mb.saturating_mul(1_000_000)),
        })
    }
}
