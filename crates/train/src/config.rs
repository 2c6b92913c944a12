//! What the config files of training say.

use crate::error::TrainError;
use crate::optimizer::{Method, Optimizer};
use crate::schedule::Schedule;
use crate::trainer::FitSettings;
use gorgon_draft::medusa::MedusaConfig;
use gorgon_model::random::LlamaShape;
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
    /// Highest learning rate.
    pub learning_rate: f64,
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
    /// Bound on the global norm of the gradients.
    pub clip_norm: f64,
    /// Steps between reports.
    pub log_every: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Checkpoints to keep beside the best one.
    pub keep: usize,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            steps: 0,
            epochs: 1.0,
            batches_per_step: 2,
            batch_tokens: 2048,
            max_tokens: 2048,
            learning_rate: 1e-3,
            warmup: 0.05,
            floor: 0.0,
            optimizer: "adamw".into(),
            betas: (0.9, 0.95),
            epsilon: 1e-8,
            weight_decay: 0.0,
            muon_factor: 10.0,
            clip_norm: 1.0,
            log_every: 10,
            eval_every: 100,
            save_every: 100,
            keep: 2,
        }
    }
}

impl Training {
    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |key: &str, value: String, reason: &str| {
            Err(TrainError::Setting { key: format!("training.{key}"), value, reason: reason.into() })
        };
        let positive =
            [("learning_rate", self.learning_rate), ("clip_norm", self.clip_norm), ("epsilon", self.epsilon)];
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
            schedule: Schedule { peak: self.learning_rate, warmup_steps, steps, floor: self.floor },
            optimizer,
            clip_norm: self.clip_norm,
            log_every: self.log_every.max(1),
            eval_every: self.eval_every,
            save_every: self.save_every,
            keep: self.keep,
            seed,
        })
    }
}

/// The config of `gorgon pretrain`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainConfig {
    /// Seed of weights and order.
    #[serde(default)]
    pub seed: u64,
    /// Where the finished model goes.
    pub out: PathBuf,
    /// Where run folders are made.
    #[serde(default = "checkpoints")]
    pub runs: PathBuf,
    /// The conversations.
    pub data: Corpus,
    /// The tokenizer.
    pub tokenizer: Vocabulary,
    /// The network.
    pub model: Shape,
    /// The fitting.
    #[serde(default)]
    pub training: Training,
}

/// The config of `gorgon train`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// What is trained: `medusa`.
    pub method: HeadMethod,
    /// The backbone: a model folder or a repo id.
    pub model: String,
    /// The folder of shards that `gorgon distill` wrote.
    pub data: PathBuf,
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
    /// Rows of logits in memory at once.
    #[serde(default = "chunk_rows")]
    pub chunk_rows: usize,
    /// The heads.
    #[serde(default)]
    pub medusa: MedusaConfig,
    /// The fitting.
    #[serde(default)]
    pub training: Training,
}

/// What `gorgon train` can train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadMethod {
    /// Medusa-1: heads on a frozen backbone.
    Medusa,
}

impl HeadMethod {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa => "medusa",
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
    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        self.training.check()?;
        self.medusa.check().map_err(|error| TrainError::Data(error.to_string()))?;
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

/// What a model is fitted to from scratch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Dialogues of the synthetic corpus.
    #[serde(default)]
    pub synthetic: u64,
    /// Copying drills: random tokens to be echoed or looked up, from which a small model learns to look back.
    #[serde(default)]
    pub drills: u64,
    /// Files of conversations with answers.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Held-out dialogues for the evaluation.
    #[serde(default = "held_out")]
    pub held_out: u64,
    /// What a prompt's token counts, relative to an answer's.
    #[serde(default)]
    pub prompt_weight: f64,
}

fn held_out() -> u64 {
    256
}

/// A tokenizer to train, or to take.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Tokens of a new tokenizer.
    #[serde(default = "vocabulary_size")]
    pub size: usize,
    /// Conversations that it is trained on.
    #[serde(default = "vocabulary_conversations")]
    pub conversations: usize,
    /// A model folder whose tokenizer to take instead.
    #[serde(default)]
    pub from: Option<PathBuf>,
}

fn vocabulary_size() -> usize {
    4096
}

fn vocabulary_conversations() -> usize {
    20_000
}

/// The network's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the names say it
pub struct Shape {
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub max_positions: usize,
}

impl Shape {
    /// With a vocabulary.
    ///
    /// # Errors
    /// When the sizes do not fit each other.
    pub fn with_vocabulary(self, vocab_size: usize) -> Result<LlamaShape, TrainError> {
        let Self { hidden_size, intermediate_size, layers, heads, kv_heads, max_positions } = self;
        let whole = [hidden_size, intermediate_size, layers, heads, kv_heads, max_positions];
        let fits = whole.iter().all(|&n| n > 0 && n <= 1 << 20)
            && hidden_size.is_multiple_of(2 * heads)
            && heads.is_multiple_of(kv_heads);
        if !fits {
            return Err(TrainError::Setting {
                key: "model".into(),
                value: format!("{whole:?}"),
                reason: "all sizes have to be above 0, hidden_size a multiple of 2 heads, heads a multiple of kv_heads"
                    .into(),
            });
        }
        Ok(LlamaShape { hidden_size, intermediate_size, layers, heads, kv_heads, vocab_size, max_positions })
    }
}
