//! What the config of `gorgon distill` says.

use crate::distill::Serving;
use crate::source::Format;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// The config of `gorgon distill`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DistillConfig {
    /// The backbone: a model folder or a repo id.
    pub model: String,
    /// The folder for the shards.
    pub out: PathBuf,
    /// Files of prompts or conversations.
    #[serde(default)]
    pub prompts: Vec<PathBuf>,
    /// Their format; told from the files if it is not given.
    #[serde(default)]
    pub format: Option<Format>,
    /// Conversations to take from each file at most; 0 takes all.
    #[serde(default)]
    pub limit: usize,
    /// Prompts of the synthetic corpus.
    #[serde(default)]
    pub synthetic: Option<Synthetic>,
    /// Who answers.
    #[serde(default)]
    pub answers: Answers,
    /// How the model answers.
    #[serde(default)]
    pub sampling: Sampling,
    /// Tokens in a conversation at most; longer ones end before the turn that does not fit.
    #[serde(default = "max_tokens")]
    pub max_tokens: usize,
    /// Turns that a model which plays both roles makes up for the user after the given ones.
    #[serde(default)]
    pub self_talk_turns: usize,
    /// Serving engines that answer in place of this machine: addresses of OpenAI-compatible servers, up to `/v1`.
    #[serde(default)]
    pub servers: Vec<String>,
    /// How to talk to them.
    #[serde(default)]
    pub serving: Serving,
    /// Conversations decoded at a time.
    #[serde(default)]
    pub batch_size: BatchSize,
    /// Memory for weights, caches and logits, in MiB; what is available if it is not given.
    #[serde(default)]
    pub memory_mib: Option<u64>,
    /// Draft heads: a folder, or the run folder of their training.
    #[serde(default)]
    pub heads: Option<PathBuf>,
    /// What drafts, by its name on the command line; what the heads are for if it is not given.
    #[serde(default)]
    pub drafter: Option<String>,
    /// The drafts' tree, by its name on the command line.
    #[serde(default)]
    pub tree: Option<String>,
}

impl DistillConfig {
    /// Whether serving engines answer.
    pub fn is_served(&self) -> bool {
        !self.servers.is_empty() && self.answers == Answers::Model
    }
}

fn max_tokens() -> usize {
    2048
}

/// How many conversations are decoded at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// As many as there is memory for, and as still makes decoding faster.
    Auto,
    /// So many.
    Conversations(usize),
}

impl Default for BatchSize {
    fn default() -> Self {
        Self::Conversations(16)
    }
}

impl Serialize for BatchSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Conversations(n) => serializer.serialize_u64(*n as u64),
        }
    }
}

impl<'de> Deserialize<'de> for BatchSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BatchSizeText)
    }
}

struct BatchSizeText;

impl Visitor<'_> for BatchSizeText {
    type Value = BatchSize;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("\"auto\" or a number of conversations, at least 1")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<BatchSize, E> {
        match text {
            "auto" => Ok(BatchSize::Auto),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<BatchSize, E> {
        match usize::try_from(n) {
            Ok(n) if n > 0 => Ok(BatchSize::Conversations(n)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(n), &self)),
        }
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<BatchSize, E> {
        u64::try_from(n).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self)).and_then(|n| self.visit_u64(n))
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// The backbone.
    #[default]
    Model,
    /// The answers that the data came with are taken as they are.
    Data,
}

/// Prompts of the synthetic corpus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// How many dialogues.
    pub dialogues: u64,
    /// Seed of the corpus.
    #[serde(default)]
    pub seed: u64,
    /// Whether to take held-out prompts.
    #[serde(default)]
    pub held_out: bool,
}

/// How the model answers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 takes the likeliest token.
    pub temperature: f64,
    /// Sample from the likeliest tokens that hold this much probability.
    pub top_p: Option<f64>,
    /// Sample from this many likeliest tokens.
    pub top_k: Option<usize>,
    /// New tokens in an answer at most.
    pub max_new_tokens: usize,
    /// Seed of all chance.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: None, top_k: None, max_new_tokens: 512, seed: 0 }
    }
}
