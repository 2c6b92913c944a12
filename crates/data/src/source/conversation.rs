//! Conversations read from a file, and the options of reading.

use super::format::Format;
use gorgon_runs::provenance::hash_bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A conversation, or the user's side of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its name, unique within the file.
    pub id: String,
    /// The line, from 1, where its record starts.
    pub line: usize,
    /// Hash of what the record says: equal for equal records, wherever they stand and however they are written.
    pub digest: u64,
    /// Category of the task, if the record names one.
    pub category: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Definitions of the tools that can be called, where tool turns are read: a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    /// The turns, at least one.
    pub turns: Vec<Turn>,
}

/// A user message and the answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// User message; never blank.
    pub user: String,
    /// Tool calls and their results between the user message and the answer, as chat templates take them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Value>,
    /// The answer the data gives, if it gives one; never blank.
    pub assistant: Option<String>,
}

/// How to read a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format of every record; `None` tells it from the file and from each record's keys.
    pub format: Option<Format>,
    /// Whether conversations without a single answer are skipped.
    pub answers_required: bool,
    /// The longest record accepted, in bytes: of a line without its end, or of an array's element.
    pub max_line_bytes: usize,
    /// Whether tool calls and their results are read; otherwise conversations with them are skipped.
    pub tools: bool,
    /// How many conversations to read; `None` reads all.
    pub limit: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, answers_required: false, tools: false, max_line_bytes: 4 << 20, limit: None }
    }
}

/// The first 64 bits of the SHA-256 of a value's JSON.
pub(crate) fn digest(value: &impl Serialize) -> u64 {
    let hash = hash_bytes(&serde_json::to_vec(value).unwrap_or_default());
    u64::from_str_radix(&hash[..16], 16).unwrap_or_default()
}
