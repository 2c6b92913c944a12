//! The config of `gorgon pretrain`.

use super::training::{RATES, Training, checkpoints};
use gorgon_draft::settings::{SettingsCheck, SettingsError, SettingsErrors};
use gorgon_model::random::LlamaShape;
use gorgon_tiny_chat as synth;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// A last part on more of the synthetic corpus.
    #[serde(default)]
    pub finish: Option<Finish>,
    /// The tokenizer.
    pub tokenizer: Vocabulary,
    /// The network.
    pub model: Shape,
    /// The fitting.
    #[serde(default)]
    pub training: Training,
}

impl PretrainConfig {
    /// The same with the default learning rate and bound on the gradients' norm filled in.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self { training: self.training.with_rates(RATES), ..self }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::top();
        check.include(self.training.check());
        check.include(self.finish.as_ref().map_or(Ok(()), Finish::check));
        check.include(self.model.with_vocabulary(self.tokenizer.size).map(|_| ()).map_err(SettingsErrors::from));
        check.finish()
    }
}

/// The conversations that a model is fitted to from scratch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Dialogues of the synthetic corpus.
    #[serde(default)]
    pub synthetic: u64,
    /// Copying drills: random tokens to be echoed or looked up. They teach a small model to copy.
    #[serde(default)]
    pub drills: u64,
    /// Files of conversations with answers.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Held-out dialogues for the evaluation.
    #[serde(default = "held_out")]
    pub held_out: u64,
    /// Weight of a prompt's token, relative to an answer's.
    #[serde(default)]
    pub prompt_weight: f64,
}

/// A last part of a training from scratch: a choice of the synthetic corpus. The learning rate rises and falls once
/// more, by the `warmup` and the `min_lr_ratio` of `[training]`. One pass over its dialogues, in
/// `gradient_accumulation` micro-batches a step.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Further dialogues of the synthetic corpus.
    pub synthetic: u64,
    /// Kinds that are chosen.
    pub kinds: Vec<String>,
    /// The share of dialogues of these kinds; the others are of any kind.
    pub share: f64,
    /// Copying drills beside them.
    #[serde(default)]
    pub drills: u64,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Tokens of a micro-batch, if others than in the first part.
    #[serde(default)]
    pub micro_batch_tokens: Option<usize>,
}

impl Finish {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("finish");
        check.require(self.synthetic > 0, "synthetic", self.synthetic, "it has to be at least 1");
        check.share("share", self.share);
        check.positive("learning_rate", self.learning_rate);
        if let Some(tokens) = self.micro_batch_tokens {
            check.at_least("micro_batch_tokens", tokens, 1);
        }
        check.require(!self.kinds.is_empty(), "kinds", "[]", "name at least one kind of dialogue");
        for name in &self.kinds {
            let known = synth::kinds().any(|kind| kind.name == name.as_str());
            check.require(known, "kinds", format_args!("{name:?}"), "no kind of dialogue is called so");
        }
        check.finish()
    }
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
    pub fn with_vocabulary(self, vocab_size: usize) -> Result<LlamaShape, SettingsError> {
        let Self { hidden_size, intermediate_size, layers, heads, kv_heads, max_positions } = self;
        let whole = [hidden_size, intermediate_size, layers, heads, kv_heads, max_positions];
        let fits = whole.iter().all(|&n| n > 0 && n <= 1 << 20)
            && hidden_size.is_multiple_of(2 * heads)
            && heads.is_multiple_of(kv_heads);
        if !fits {
            let reason =
                "all sizes have to be above 0, hidden_size a multiple of 2 heads, heads a multiple of kv_heads";
            return Err(SettingsError::new("model", format_args!("{whole:?}"), reason));
        }
        Ok(LlamaShape { hidden_size, intermediate_size, layers, heads, kv_heads, vocab_size, max_positions })
    }
}
