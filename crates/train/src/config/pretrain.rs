//! The config of `gorgon dev pretrain`.

use super::training::{MOST_TOKENS, RATES, Training, checkpoints};
use gorgon_data::config::Files;
use gorgon_draft::settings::{SettingsCheck, SettingsError, SettingsErrors};
use gorgon_model::random::LlamaShape;
use gorgon_tiny_chat as synth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A training of a small Llama from scratch: `gorgon dev pretrain`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PretrainConfig {
    /// Seed of the initial weights and of the order of the data.
    #[serde(default)]
    pub seed: u64,
    /// Folder for the finished model.
    pub out: PathBuf,
    /// Folder in which run folders are made.
    #[serde(default = "checkpoints")]
    pub runs: PathBuf,
    /// Conversations to fit to.
    pub data: Corpus,
    /// A last part of the training, on chosen kinds of the synthetic corpus. It is left out if it is not set.
    #[serde(default)]
    pub finish: Option<Finish>,
    /// Tokenizer to train, or to take from a model.
    pub tokenizer: Vocabulary,
    /// Sizes of the network.
    pub model: Shape,
    /// Steps, batches, optimizer, reports and checkpoints.
    #[serde(default)]
    pub training: Training,
}

impl PretrainConfig {
    /// Copy with the default learning rate and bound on the gradients' norm filled in.
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
        let buffer = self.training.shuffle_buffer.unwrap_or(0);
        let reason = "a language model reads sequences, so its steps are made of whole conversations";
        check.require(buffer == 0, "training.shuffle_buffer", buffer, reason);
        let window = self.training.window_tokens;
        let reason = "the model is fitted to whole conversations";
        check.require(window.is_none(), "training.window_tokens", window.unwrap_or(0), reason);
        check.include(self.data.check());
        check.include(self.finish.as_ref().map_or(Ok(()), Finish::check));
        check.include(self.tokenizer.check());
        check.include(self.model.with_vocabulary(self.tokenizer.size).map(|_| ()).map_err(SettingsErrors::from));
        check.finish()
    }
}

/// Made-up dialogues of a corpus, at most: they are held in memory.
pub const MOST_DIALOGUES: u64 = 10_000_000;

/// The conversations that a model is fitted to from scratch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Number of dialogues of the synthetic corpus.
    #[serde(default)]
    pub synthetic: u64,
    /// Number of copying drills: random tokens to be echoed or looked up. They teach a small model to copy.
    #[serde(default)]
    pub drills: u64,
    /// A file of conversations with answers, or a list of files, as in the config of a distillation.
    #[serde(default)]
    pub files: Files,
    /// Number of held-out dialogues for the evaluation.
    #[serde(default = "held_out")]
    pub held_out: u64,
    /// Weight of a prompt's token relative to an answer's.
    #[serde(default)]
    pub prompt_weight: f64,
}

impl Corpus {
    fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("data");
        check.within("synthetic", self.synthetic, 0..=MOST_DIALOGUES);
        check.within("drills", self.drills, 0..=MOST_DIALOGUES);
        check.within("held_out", self.held_out, 1..=MOST_DIALOGUES);
        check.not_negative("prompt_weight", self.prompt_weight);
        check.finish()
    }
}

/// A last part of a training from scratch: a choice of the synthetic corpus. The learning rate rises and falls once
/// more, by the `warmup` and the `min_lr_ratio` of `[training]`. One pass over its dialogues, in
/// `gradient_accumulation` micro-batches a step.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Number of further dialogues of the synthetic corpus.
    pub synthetic: u64,
    /// Kinds of dialogues that are chosen, by name.
    pub kinds: Vec<String>,
    /// Share of dialogues of these kinds, from 0 to 1. The others are of any kind.
    pub share: f64,
    /// Number of copying drills beside them.
    #[serde(default)]
    pub drills: u64,
    /// Highest learning rate of this part.
    pub learning_rate: f64,
    /// Tokens in a micro-batch, at most; `training.micro_batch_tokens` if it is not set.
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
        check.within("synthetic", self.synthetic, 1..=MOST_DIALOGUES);
        check.within("drills", self.drills, 0..=MOST_DIALOGUES);
        check.share("share", self.share);
        check.rate("learning_rate", self.learning_rate);
        if let Some(tokens) = self.micro_batch_tokens {
            check.within("micro_batch_tokens", tokens as u64, 1..=MOST_TOKENS);
        }
        check.require(!self.kinds.is_empty(), "kinds", "[]", "name at least one kind of dialogue");
        for name in &self.kinds {
            let known = synth::kinds().any(|kind| kind.name == name.as_str());
            let all: Vec<&str> = synth::kinds().map(|kind| kind.name).collect();
            let reason = format_args!("no kind of dialogue is called so; kinds: {}", all.join(" "));
            check.require(known, "kinds", format_args!("{name:?}"), reason);
        }
        check.finish()
    }
}

fn held_out() -> u64 {
    256
}

/// A tokenizer to train, or to take.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Number of tokens of a new tokenizer.
    #[serde(default = "vocabulary_size")]
    pub size: usize,
    /// Number of conversations that it is trained on.
    #[serde(default = "vocabulary_conversations")]
    pub conversations: usize,
    /// A model folder whose tokenizer is taken instead of training one.
    #[serde(default)]
    pub from: Option<PathBuf>,
}

impl Vocabulary {
    fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("tokenizer");
        // Bytes and special tokens come first.
        check.within("size", self.size as u64, 1..=1 << 24);
        check.within("conversations", self.conversations as u64, 1..=MOST_DIALOGUES);
        let (trains, reason) = (self.from.is_none(), "tokenizer.from is set, and taken");
        check.used(trains, "size", &self.size, &vocabulary_size(), reason);
        check.used(trains, "conversations", &self.conversations, &vocabulary_conversations(), reason);
        check.finish()
    }
}

fn vocabulary_size() -> usize {
    4096
}

fn vocabulary_conversations() -> usize {
    20_000
}

/// The network's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Width of the residual stream, a multiple of twice the number of heads.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads; the query heads are a multiple of it.
    pub kv_heads: usize,
    /// Longest context, in tokens.
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
