//! What is read from a file, and how.

use super::format::Format;
use serde::{Deserialize, Serialize};

/// A conversation, or the user's side of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its name, unique within the file.
    pub id: String,
    /// The line, from 1, where its record starts.
    pub line: usize,
    /// What sort of task it is, if the record says so.
    pub category: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The turns, at least one.
    pub turns: Vec<Turn>,
}

/// What the user says, and the answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// What the user says; never blank.
    pub user: String,
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
    /// How many conversations to read; `None` reads all.
    pub limit: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, answers_required: false, max_line_bytes: 4 << 20, limit: None }
    }
}
