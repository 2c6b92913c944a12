//! What the config of `gorgon distill` says.

use crate::distill::Serving;
use crate::source::Format;
use serde::{Deserialize, Serialize};
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
    #[serde(default = "batch_size")]
    pub batch_size: usize,
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

fn batch_size() -> usize {
    16
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
