//! The config of `gorgon distill`.

mod files;

pub use self::files::Files;

use crate::distill::Serving;
use crate::source::Format;
use gorgon_text::variables::Variables;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// A self-distillation: `gorgon distill`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DistillConfig {
    /// Backbone: a model folder or a repo id on the hub.
    pub model: String,
    /// Folder for the shards.
    pub out: PathBuf,
    /// A file of prompts or conversations, or a list of files: JSONL, JSON, Parquet or text. `hf://datasets/OWNER/NAME`
    /// names a data set on the hub; `@REVISION` and `/FILE` can follow.
    #[serde(default)]
    pub prompts: Files,
    /// Format of the prompts; detected from the files if it is not set.
    #[serde(default)]
    pub format: Option<Format>,
    /// Conversations to take from each of the `prompts`, at most; 0 takes all. The files of a data set on the hub are
    /// downloaded one after another until there are as many.
    #[serde(default)]
    pub limit: usize,
    /// Prompts of the synthetic corpus.
    #[serde(default)]
    pub synthetic: Option<Synthetic>,
    /// Source of the answers.
    #[serde(default)]
    pub answers: Answers,
    /// Sampling of the model's answers.
    #[serde(default)]
    pub sampling: Sampling,
    /// Variables for the model's chat template, such as `enable_thinking = false`. `--template-var` sets them too.
    #[serde(default)]
    pub template: Variables,
    /// Answer tokens of the whole job: distilling ends with the record that reaches this number. Not limited if it is
    /// not set.
    #[serde(default)]
    pub max_total_tokens: Option<u64>,
    /// Tokens in a conversation, at most. Longer ones end before the turn that does not fit.
    #[serde(default = "max_tokens")]
    pub max_tokens: usize,
    /// Turns that a model which plays both roles makes up for the user after the given ones.
    #[serde(default)]
    pub self_talk_turns: usize,
    /// Serving engines that answer in place of this machine: addresses of OpenAI-compatible servers, up to `/v1`.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Requests to serving engines.
    #[serde(default)]
    pub serving: Serving,
    /// Conversations decoded at a time.
    #[serde(default)]
    pub batch_size: BatchSize,
    /// Memory for weights, caches and logits, in MiB. If it is not set, gorgon takes what is available.
    #[serde(default)]
    pub memory_mib: Option<u64>,
    /// Draft heads to answer faster: a folder, or the run folder of their training.
    #[serde(default)]
    pub heads: Option<PathBuf>,
    /// Drafter, as `--drafter` names it. If it is not set, the heads decide.
    #[serde(default)]
    pub drafter: Option<String>,
    /// Tree of drafts, as `--tree` names it. If it is not set, the heads decide.
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

impl JsonSchema for BatchSize {
    fn schema_name() -> Cow<'static, str> {
        "BatchSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"const": "auto", "description": "As many as there is memory for, and as still make decoding faster."},
            {"type": "integer", "minimum": 1, "description": "A number of conversations."}
        ]})
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

/// Source of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// The backbone.
    #[default]
    Model,
    /// The answers that the data came with are taken as they are.
    Data,
}

/// Prompts of the synthetic corpus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// Number of dialogues.
    pub dialogues: u64,
    /// Seed of the corpus.
    #[serde(default)]
    pub seed: u64,
    /// Whether to take held-out prompts.
    #[serde(default)]
    pub held_out: bool,
}

/// Sampling of the model's answers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Temperature. 0 takes the top-1 token.
    pub temperature: f64,
    /// Nucleus sampling: the most likely tokens that hold this much probability, above 0 and at most 1. Off if it is
    /// not set.
    pub top_p: Option<f64>,
    /// Top-k sampling: this many of the most likely tokens. Off if it is not set.
    pub top_k: Option<usize>,
    /// New tokens in an answer, at most.
    pub max_new_tokens: usize,
    /// Seed of the random source.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: None, top_k: None, max_new_tokens: 512, seed: 0 }
    }
}
