//! What the config files of training say.

mod distill_spec;
mod medusa_two;
mod pretrain;

pub use distill_spec::{Answers, DistillSpecConfig, Measure};
pub use medusa_two::{LanguageLoss, MedusaTwoConfig, Warmup};
pub use pretrain::{Corpus, Finish, PretrainConfig, Shape, Vocabulary};

use crate::error::TrainError;
use crate::heads::FeatureFormat;
use crate::optimizer::{Method, Optimizer};
use crate::schedule::Schedule;
use crate::trainer::FitSettings;
use gorgon_draft::eagle::EagleConfig;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_draft::hydra::HydraConfig;
use gorgon_draft::medusa::MedusaConfig;
use gorgon_draft::mtp::MtpConfig;
use gorgon_kernels::TableFormat;
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
    /// Megabytes that fitting may take: parameters, moments, gradients and micro-batches at work. Micro-batches that are beyond
    /// it are computed in halves.
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
const RATES: (f64, f64) = (1e-3, 1.0);

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

/// The config of `gorgon train`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// What is trained: `medusa`, `medusa-2`, `hydra`, `eagle`, `eagle3`, `mtp` or `distill-spec`.
    pub method: HeadMethod,
    /// The backbone: a model folder or a repo id.
    pub model: String,
    /// The folder of shards that `gorgon distill` wrote.
    pub data: PathBuf,
    /// A folder of heads, or the run folder of a training, that fitting goes on from; from scratch where none is named.
    #[serde(default)]
    pub start: Option<PathBuf>,
    /// Share of the conversations that is kept for measuring.
    #[serde(default = "held_out_share")]
    pub held_out: f64,
    /// A folder of shards to measure on instead.
    #[serde(default)]
    pub eval_data: Option<PathBuf>,
    /// Conversations to measure on at most.
    #[serde(default = "held_out_most")]
    pub eval_conversations: usize,
    /// Held-out prompts that are decoded with the heads in every evaluation.
    #[serde(default = "decoded_prompts")]
    pub eval_decoded_prompts: usize,
    /// New tokens of each of them.
    #[serde(default = "decoded_tokens")]
    pub eval_decoded_tokens: usize,
    /// Where run folders are made.
    #[serde(default = "checkpoints")]
    pub runs: PathBuf,
    /// Seed of the order.
    #[serde(default)]
    pub seed: u64,
    /// Whether to compute hidden states once and keep them on disk.
    #[serde(default)]
    pub cache_features: bool,
    /// Their number format there: `f32`, `bf16` or `int8`.
    #[serde(default)]
    pub feature_format: FeatureFormat,
    /// Their folder; beside the data where none is named. Naming one asks for the cache.
    #[serde(default)]
    pub features: Option<PathBuf>,
    /// Rows of logits in memory at once, at most.
    #[serde(default = "chunk_rows")]
    pub chunk_rows: usize,
    /// What products with the frozen LM head multiply: `f32`, or `bf16` with sums in 32 bits. On a GPU, those of Medusa's blocks too.
    #[serde(default)]
    pub lm_head_format: LmHeadFormat,
    /// Medusa heads.
    #[serde(default)]
    pub medusa: MedusaConfig,
    /// Backbone and heads together.
    #[serde(default)]
    pub medusa2: MedusaTwoConfig,
    /// An EAGLE draft layer.
    #[serde(default)]
    pub eagle: EagleConfig,
    /// An EAGLE-3 draft layer.
    #[serde(default)]
    pub eagle3: Eagle3Config,
    /// Hydra heads.
    #[serde(default)]
    pub hydra: HydraConfig,
    /// Multi-token-prediction modules.
    #[serde(default)]
    pub mtp: MtpConfig,
    /// A draft model.
    #[serde(default)]
    pub distill_spec: DistillSpecConfig,
    /// The fitting.
    #[serde(default)]
    pub training: Training,
}

/// What products with the frozen LM head multiply while heads are fitted. What is fitted, the optimizer's moments and decoding keep 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LmHeadFormat {
    /// 32-bit numbers.
    #[default]
    F32,
    /// States, gradients and the LM head rounded to 8 significant bits, sums in 32 bits: faster where the device has such products.
    Bf16,
}

impl From<LmHeadFormat> for TableFormat {
    fn from(format: LmHeadFormat) -> Self {
        match format {
            LmHeadFormat::F32 => Self::F32,
            LmHeadFormat::Bf16 => Self::Bf16,
        }
    }
}

/// What `gorgon train` can train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadMethod {
    /// Medusa-1: heads on a frozen backbone.
    Medusa,
    /// Medusa-2: heads and, through an adapter, the backbone.
    #[serde(rename = "medusa-2")]
    MedusaTwo,
    /// EAGLE-1 and EAGLE-2: a draft layer on a frozen backbone.
    Eagle,
    /// EAGLE-3: a draft layer on three depths of a frozen backbone.
    Eagle3,
    /// Hydra and Hydra++: heads that know the tokens before theirs, on a frozen backbone.
    Hydra,
    /// Multi-token-prediction modules on a frozen backbone.
    Mtp,
    /// DistillSpec: a separate draft model, fitted to the frozen backbone's distributions.
    #[serde(rename = "distill-spec")]
    DistillSpec,
}

impl HeadMethod {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa => "medusa",
            Self::MedusaTwo => "medusa-2",
            Self::Eagle => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Hydra => "hydra",
            Self::Mtp => "mtp",
            Self::DistillSpec => "distill-spec",
        }
    }

    /// Its learning rate and its bound on the gradients' norm; for EAGLE the papers'.
    fn rates(self) -> (f64, f64) {
        match self {
            Self::Medusa | Self::MedusaTwo | Self::Hydra | Self::Mtp => RATES,
            Self::Eagle => (3e-5, 0.5),
            Self::Eagle3 => (5e-5, 0.5),
            // The paper's.
            Self::DistillSpec => (3e-4, 1.0),
        }
    }
}

fn held_out_share() -> f64 {
    0.05
}

fn held_out_most() -> usize {
    256
}

fn decoded_prompts() -> usize {
    16
}

fn decoded_tokens() -> usize {
    64
}

fn chunk_rows() -> usize {
    1024
}

impl TrainConfig {
    /// The same with everything said that depends on the method.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self { training: self.training.with_rates(self.method.rates()), ..self }
    }

    /// Whether hidden states are kept on disk.
    pub fn caches_features(&self) -> bool {
        self.cache_features || self.features.is_some()
    }

    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        self.training.check()?;
        if let (Some(start), HeadMethod::MedusaTwo | HeadMethod::DistillSpec) = (&self.start, self.method) {
            let reason = format!("{} does not start from heads", self.method.name());
            return Err(TrainError::Setting { key: "start".into(), value: start.display().to_string(), reason });
        }
        self.medusa.check().map_err(|error| TrainError::Data(error.to_string()))?;
        self.medusa2.check()?;
        if self.method == HeadMethod::MedusaTwo && self.medusa.blocks > 1 {
            let reason = "loaders of merged models put one block in every place, so 1 is all there can be".into();
            return Err(TrainError::Setting {
                key: "medusa.blocks".into(),
                value: self.medusa.blocks.to_string(),
                reason,
            });
        }
        self.eagle.check().map_err(|error| TrainError::Data(error.to_string()))?;
        self.eagle3.check().map_err(|error| TrainError::Data(error.to_string()))?;
        self.hydra.check().map_err(|error| TrainError::Data(error.to_string()))?;
        self.mtp.check().map_err(|error| TrainError::Data(error.to_string()))?;
        if self.method == HeadMethod::DistillSpec {
            self.distill_spec.check()?;
        }
        if !(0.0..1.0).contains(&self.held_out) {
            let reason = "it has to be at least 0 and below 1".into();
            return Err(TrainError::Setting { key: "held_out".into(), value: self.held_out.to_string(), reason });
        }
        Ok(())
    }
}

/// Where run folders are made unless the config says otherwise.
pub fn checkpoints() -> PathBuf {
    "checkpoints".into()
}
