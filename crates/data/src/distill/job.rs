//! A distillation job: prompts, settings and events.

use crate::render::RenderError;
use gorgon_core::accept::AcceptanceRule;
use gorgon_infer::DecodeError;
use gorgon_runs::RunError;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why distillation stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// The model or what drafts for it.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] RunError),
    /// The model's scores are no scores.
    #[error("{source_file} line {line}: the model's logits are not finite: its weights are damaged")]
    NonFinite {
        /// The file of the prompt.
        source_file: String,
        /// Its line.
        line: u64,
    },
    /// No server answers.
    #[error("{url}: no answer after {attempts} attempts: {reason}")]
    Unserved {
        /// The server that was asked last.
        url: String,
        /// How often servers were asked.
        attempts: u32,
        /// Reason of the last failure.
        reason: String,
    },
    /// Every server was given up.
    #[error("no server is left: {}", .reasons.join("; "))]
    NoServers {
        /// Each server with the reason.
        reasons: Vec<String>,
    },
}

/// A conversation to be answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Its number among all that were kept.
    pub row: u64,
    /// Hash of its record, apart from those of equal records: random choices depend on it.
    pub key: u64,
    /// Its id in the source.
    pub id: String,
    /// The file it came from.
    pub source: String,
    /// Where it starts there, from 1.
    pub line: u64,
    /// Its category.
    pub category: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Definitions of the tools that can be called.
    pub tools: Option<Value>,
    /// The user's turns.
    pub users: Vec<String>,
    /// Tool calls and their results between the user's turn and the answer, by turn.
    pub calls: BTreeMap<usize, Vec<Value>>,
}

impl Prompt {
    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        let calls = self.tools.iter().chain(self.calls.values().flatten()).map(|value| value.to_string().len());
        self.system.iter().chain(&self.users).map(String::len).chain(calls).sum()
    }

    /// Tool calls and results of a turn.
    pub fn calls(&self, turn: usize) -> &[Value] {
        self.calls.get(&turn).map_or(&[], Vec::as_slice)
    }
}

/// How long answers and conversations may get, and how they are drawn.
pub struct Answering<'a> {
    /// New tokens in an answer, at most.
    pub max_new_tokens: usize,
    /// Tokens in a conversation, at most.
    pub max_tokens: usize,
    /// Turns that the model makes up for the user after the given ones.
    pub self_talk_turns: usize,
    /// Picks tokens.
    pub rule: &'a (dyn AcceptanceRule + Sync),
    /// Seed of all chance; every answer has its own stream.
    pub seed: u64,
}

/// Progress reported while distilling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer ended.
    Answer {
        /// Its conversation.
        row: u64,
        /// Its tokens.
        tokens: usize,
    },
    /// A conversation is done.
    Conversation {
        /// Which.
        row: u64,
        /// Where it was, and the tokens that were read there; nothing where servers answer.
        slot: Option<(usize, usize)>,
    },
    /// A server was given up; the others go on.
    ServerLost {
        /// Its address, and the reason.
        reason: String,
    },
}

/// How an answer ended.
pub const END_TOKEN: &str = "end_token";
/// An answer that was cut off.
pub const LENGTH: &str = "length";
/// A given answer.
pub const GIVEN: &str = "given";

/// Follows how an answer ended where its ids are not the server's own but those of its text.
pub const RETOKENISED: &str = ":retokenised";

/// The error of a prompt that cannot be rendered.
pub(super) fn wrong(prompt: &Prompt, error: &RenderError) -> DistillError {
    let reason = format!("line {}: {error}", prompt.line);
    RunError::Damaged { path: (&prompt.source).into(), reason }.into()
}
