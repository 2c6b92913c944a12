//! The `[training]` table.

use crate::optimizer::{Method, Optimizer};
use crate::schedule::Schedule;
use crate::trainer::FitSettings;
use gorgon_draft::settings::{SettingsCheck, SettingsError, SettingsErrors};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The `[training]` table of every method.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Optimizer steps; 0 means `epochs` passes over the data.
    pub steps: u64,
    /// Passes over the data, where `steps` is 0.
    pub epochs: f64,
    /// Micro-batches whose gradients are summed in a step. On the CPU they run side by side.
    pub gradient_accumulation: usize,
    /// Tokens in a micro-batch, at most. A longer conversation has one of its own.
    pub micro_batch_tokens: usize,
    /// Tokens of the longest conversation. Longer ones are cut off.
    pub max_seq_len: usize,
    /// Highest learning rate; the method's own if it is not set.
    pub learning_rate: Option<f64>,
    /// Share of the steps over which the learning rate rises.
    pub warmup: f64,
    /// Last learning rate, relative to the highest.
    pub min_lr_ratio: f64,
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
    /// Bound on the global norm of the gradients; the method's own if it is not set.
    pub max_grad_norm: Option<f64>,
    /// Steps between reports.
    pub log_every: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Checkpoints to save_total_limit beside the best one.
    pub save_total_limit: usize,
    /// Megabytes that fitting may take: parameters, moments, gradients and micro-batches at work. Micro-batches beyond
    /// it are computed in halves.
    pub memory_limit_mb: Option<u64>,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            steps: 0,
            epochs: 1.0,
            gradient_accumulation: 2,
            micro_batch_tokens: 2048,
            max_seq_len: 2048,
            learning_rate: None,
            warmup: 0.05,
            min_lr_ratio: 0.0,
            optimizer: "adamw".into(),
            betas: (0.9, 0.95),
            epsilon: 1e-8,
            weight_decay: 0.0,
            muon_factor: 10.0,
            max_grad_norm: None,
            log_every: 10,
            eval_every: 100,
            save_every: 100,
            save_total_limit: 2,
            memory_limit_mb: None,
        }
    }
}

/// Default learning rate and bound on the gradients' norm.
pub(super) const RATES: (f64, f64) = (1e-3, 1.0);

impl Training {
    /// The same with a learning rate and a bound on the gradients' norm.
    #[must_use]
    pub fn with_rates(self, (learning_rate, max_grad_norm): (f64, f64)) -> Self {
        let learning_rate = Some(self.learning_rate.unwrap_or(learning_rate));
        Self { learning_rate, max_grad_norm: Some(self.max_grad_norm.unwrap_or(max_grad_norm)), ..self }
    }

    fn rates(&self) -> (f64, f64) {
        (self.learning_rate.unwrap_or(RATES.0), self.max_grad_norm.unwrap_or(RATES.1))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("training");
        let (learning_rate, max_grad_norm) = self.rates();
        check.positive("learning_rate", learning_rate);
        check.positive("max_grad_norm", max_grad_norm);
        check.positive("epsilon", self.epsilon);
        check.share("warmup", self.warmup);
        check.share("min_lr_ratio", self.min_lr_ratio);
        let betas = [self.betas.0, self.betas.1].iter().all(|b| (0.0..1.0).contains(b));
        let reason = "both have to be at least 0 and below 1";
        check.require(betas, "betas", format_args!("{:?}", self.betas), reason);
        let epochs = self.steps > 0 || (self.epochs.is_finite() && self.epochs > 0.0);
        check.require(epochs, "epochs", self.epochs, "it has to be a number above 0 where steps is 0");
        check.not_negative("weight_decay", self.weight_decay);
        check.not_negative("muon_factor", self.muon_factor);
        check.at_least("gradient_accumulation", self.gradient_accumulation, 1);
        check.at_least("micro_batch_tokens", self.micro_batch_tokens, 1);
        check.at_least("save_total_limit", self.save_total_limit, 1);
        check.at_least("max_seq_len", self.max_seq_len, 2);
        check.include(self.method().map(|_| ()).map_err(SettingsErrors::from));
        check.finish()
    }

    fn method(&self) -> Result<Method, SettingsError> {
        match self.optimizer.as_str() {
            "adamw" => Ok(Method::AdamW),
            "muon" => Ok(Method::Muon),
            other => Err(SettingsError::new("training.optimizer", other, "expected adamw or muon")),
        }
    }

    /// How to fit, for data of which one pass takes `steps_per_epoch`.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn settings(&self, steps_per_epoch: u64, seed: u64) -> Result<FitSettings, SettingsErrors> {
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
            schedule: Schedule {
                peak: self.rates().0,
                warmup_steps,
                steps,
                min_lr_ratio: self.min_lr_ratio,
                restart: None,
            },
            optimizer,
            max_grad_norm: self.rates().1,
            log_every: self.log_every.max(1),
            eval_every: self.eval_every,
            save_every: self.save_every,
            save_total_limit: self.save_total_limit,
            seed,
            memory_limit: self.memory_limit_mb.map(|mb| mb.saturating_mul(1_000_000)),
        })
    }
}

/// The default folder of run folders.
pub fn checkpoints() -> PathBuf {
    "checkpoints".into()
}
