//! The formats, and how a record's keys tell them apart.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clip::clip;

/// How a record says who said what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `conversations` (or `conversation`): a list of `{from, value}` or `{role, content}`.
    ShareGpt,
    /// `messages`: a list of `{role, content}`, as the chat interfaces take it.
    Messages,
    /// `instruction`, `input` (or `context`) and `output`: one turn; the input follows after a blank line.
    Alpaca,
    /// `turns`: a list of the user's texts, as in MT-Bench and Spec-Bench.
    Turns,
    /// `prompt` (or `question`, or `text`) with perhaps an `answer`, `response`, `completion` or `output`; or the prompt
    /// alone, as an element of an array.
    Prompt,
    /// No JSON: a prompt per line.
    Text,
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{}`; known are sharegpt, messages, alpaca, turns, prompt and text", clip(.0))]
pub struct UnknownFormat(String);

impl Format {
    /// All of them. Where a record has the keys of several, the first one here is its format.
    pub const ALL: [Self; 6] = [Self::ShareGpt, Self::Messages, Self::Turns, Self::Alpaca, Self::Prompt, Self::Text];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShareGpt => "sharegpt",
            Self::Messages => "messages",
            Self::Alpaca => "alpaca",
            Self::Turns => "turns",
            Self::Prompt => "prompt",
            Self::Text => "text",
        }
    }

    /// Whether a key shows a format.
    pub(super) fn has_key(key: &str) -> bool {
        Self::ALL.iter().any(|format| format.keys().contains(&key))
    }

    /// The keys of which a record of this format has at least one; of several, the first one counts.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::ShareGpt => &["conversations", "conversation"],
            Self::Messages => &["messages"],
            Self::Alpaca => &["instruction"],
            Self::Turns => &["turns"],
            Self::Prompt => &["prompt", "question", "text"],
            Self::Text => &[],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
