//! The `[training]` table.

use crate::optimizer::{Method, Optimizer};
use crate::schedule::Schedule;
use crate::trainer::FitSettings;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Tokens of anything that is counted in tokens, at most.
pub const MOST_TOKENS: u64 = 1 << 30;
/// Steps of a training, at most: far more than anybody takes, and few enough to count bytes and seconds of.
const MOST_STEPS: u64 = 1 << 40;
/// Passes over the data, at most.
const MOST_EPOCHS: f64 = 1e6;

/// Steps, batches, optimizer, reports and checkpoints of every method.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Optimizer steps. 0 means `epochs` passes over the data.
    pub steps: u64,
    /// Passes over the data, where `steps` is 0.
    pub epochs: f64,
    /// Micro-batches whose gradients are summed in a step. On the CPU they run side by side.
    pub gradient_accumulation: usize,
    /// Tokens in a micro-batch, at most. A longer conversation has one of its own.
    pub micro_batch_tokens: usize,
    /// Positions whose hidden states are in memory at once, at most. Each step draws its positions from them in a random
    /// order, so a step has positions of many conversations. 0 makes steps of whole conversations. If it is not set:
    /// 65536 for `medusa` and for `hydra` without `prefix_attention` and `soft_targets`, otherwise 0. Other methods read
    /// sequences and allow nothing but 0.
    pub shuffle_buffer: Option<usize>,
    /// Tokens of a window. Each step then reads windows of many conversations in place of whole conversations, and a draft
    /// layer attends to nothing before its window. Labels of later drafts that lie behind a window's end are lost. It needs
    /// `cache_features`. If it is not set, steps read whole conversations. Heads with a `shuffle_buffer` draw single
    /// positions and allow no windows.
    pub window_tokens: Option<usize>,
    /// Tokens of the longest conversation. Longer ones are cut off there.
    pub max_seq_len: usize,
    /// Highest learning rate. If it is not set: 3e-5 for `eagle`, 5e-5 for `eagle3`, 3e-4 for `distill-spec`, otherwise 1e-3.
    pub learning_rate: Option<f64>,
    /// Share of the steps over which the learning rate rises, from 0 to 1.
    pub warmup: f64,
    /// Last learning rate relative to the highest, from 0 to 1.
    pub min_lr_ratio: f64,
    /// Optimizer of the matrices. Tables and vectors use AdamW.
    pub optimizer: Method,
    /// AdamW's decay rates.
    pub betas: (f64, f64),
    /// AdamW's epsilon.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Muon's learning rate relative to `learning_rate`.
    pub muon_factor: f64,
    /// Bound on the global norm of the gradients. If it is not set: 0.5 for `eagle` and `eagle3`, otherwise 1.
    pub max_grad_norm: Option<f64>,
    /// Optimizer steps between reports.
    pub log_every: u64,
    /// Optimizer steps between evaluations; 0 evaluates at the end only.
    pub eval_every: u64,
    /// Optimizer steps between checkpoints; 0 saves at the end only.
    pub save_every: u64,
    /// Checkpoints that are kept beside the best one.
    pub save_total_limit: usize,
    /// Memory that fitting may take, in MB: parameters, moments, gradients and micro-batches at work. Micro-batches
    /// beyond it are computed in halves. If it is not set, there is no limit.
    pub memory_limit_mb: Option<u64>,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            steps: 0,
            epochs: 1.0,
            gradient_accumulation: 2,
            micro_batch_tokens: 2048,
            shuffle_buffer: None,
            window_tokens: None,
            max_seq_len: 2048,
            learning_rate: None,
            warmup: 0.05,
            min_lr_ratio: 0.0,
            optimizer: Method::AdamW,
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
    /// Copy with a learning rate and a bound on the gradients' norm.
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
        check.rate("learning_rate", learning_rate);
        check.positive("max_grad_norm", max_grad_norm);
        check.positive("epsilon", self.epsilon);
        check.share("warmup", self.warmup);
        check.share("min_lr_ratio", self.min_lr_ratio);
        let betas = [self.betas.0, self.betas.1].iter().all(|b| (0.0..1.0).contains(b));
        let reason = "both have to be at least 0 and below 1";
        check.require(betas, "betas", format_args!("{:?}", self.betas), reason);
        let epochs = (0.0..=MOST_EPOCHS).contains(&self.epochs) && (self.steps > 0 || self.epochs > 0.0);
        let reason = format_args!("it has to be a number above 0 where steps is 0, and at most {MOST_EPOCHS}");
        check.require(epochs, "epochs", self.epochs, reason);
        check.not_negative("weight_decay", self.weight_decay);
        check.not_negative("muon_factor", self.muon_factor);
        check.within("steps", self.steps, 0..=MOST_STEPS);
        check.within("gradient_accumulation", self.gradient_accumulation as u64, 1..=1 << 16);
        check.within("micro_batch_tokens", self.micro_batch_tokens as u64, 1..=MOST_TOKENS);
        check.within("shuffle_buffer", self.shuffle_buffer.unwrap_or(0) as u64, 0..=MOST_TOKENS);
        check.within("window_tokens", self.window_tokens.unwrap_or(1) as u64, 1..=MOST_TOKENS);
        check.within("max_seq_len", self.max_seq_len as u64, 2..=MOST_TOKENS);
        check.at_least("save_total_limit", self.save_total_limit, 1);
        check.require(self.log_every > 0, "log_every", 0, "it has to be at least 1");
        check.require(self.memory_limit_mb != Some(0), "memory_limit_mb", 0, "it has to be at least 1");
        let default = Self::default();
        check.used(self.steps == 0, "epochs", &self.epochs, &default.epochs, "training.steps is set, and counts");
        let is_muon = self.optimizer == Method::Muon;
        check.used(is_muon, "muon_factor", &self.muon_factor, &default.muon_factor, "it is for optimizer = \"muon\"");
        check.finish()
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
            method: self.optimizer,
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
            log_every: self.log_every,
            eval_every: self.eval_every,
            save_every: self.save_every,
            save_total_limit: self.save_total_limit,
            seed,
            keep_start: false,
            evaluates: true,
            memory_limit: self.memory_limit_mb.map(|mb| mb.saturating_mul(1_000_000)),
        })
    }
}

/// The default folder of run folders.
pub fn checkpoints() -> PathBuf {
    "checkpoints".into()
}
