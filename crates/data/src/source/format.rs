//! The formats, and how a record's keys tell them apart.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reason::{Reason, clip};

/// How a record says who said what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// `prompt` (or `question`) with perhaps an `answer`, `response`, `completion` or `output`.
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

    /// The keys of which a record of this format has at least one; of several, the first one counts.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::ShareGpt => &["conversations", "conversation"],
            Self::Messages => &["messages"],
            Self::Alpaca => &["instruction"],
            Self::Turns => &["turns"],
            Self::Prompt => &["prompt", "question"],
            Self::Text => &[],
        }
    }

    /// The format of `record` and the key that shows it; with `wanted`, only that format will do.
    pub(super) fn of(record: &Map<String, Value>, wanted: Option<Self>) -> Result<(Self, &'static str), Reason> {
        let shown = |format: Self| {
            let key = format.keys().iter().find(|key| record.contains_key(**key))?;
            Some((format, *key))
        };
        match wanted {
            Some(format) => {
                shown(format).ok_or_else(|| Reason::OtherFormat { wanted: format, keys: list_keys(record) })
            }
            None => Self::ALL.into_iter().find_map(shown).ok_or_else(|| match list_of_records(record) {
                Some(key) => Reason::HoldsList { key: clip(key) },
                None => Reason::UnknownFormat { keys: list_keys(record) },
            }),
        }
    }
}

/// The key of a list of objects, which are likely to be the records.
fn list_of_records(record: &Map<String, Value>) -> Option<&str> {
    let is_list = |value: &Value| matches!(value, Value::Array(list) if list.first().is_some_and(Value::is_object));
    record.iter().find(|(_, value)| is_list(value)).map(|(key, _)| key.as_str())
}

/// The first few keys of `record`, for a message.
fn list_keys(record: &Map<String, Value>) -> String {
    const SHOWN: usize = 8;
    let mut list = record.keys().take(SHOWN).map(|key| clip(key)).collect::<Vec<_>>().join(", ");
    if record.len() > SHOWN {
        list += &format!(" and {} more", record.len() - SHOWN);
    }
    if list.is_empty() { "none".to_owned() } else { list }
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
