//! Calls of tools in an answer's text, as models write them.
//!
//! Known are `<tool_call>{…}</tool_call>` (Hermes, Qwen), `[TOOL_CALLS] [{…}]` (Mistral), and an answer that is nothing
//! but a call `{"name": …, "parameters": …}` or a list of them (Llama 3.1).

use serde_json::{Value, json};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const MISTRAL: &str = "[TOOL_CALLS]";
/// Where a call may begin within a text.
const MARKS: [&str; 2] = [OPEN, MISTRAL];

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub name: String,
    /// JSON.
    pub arguments: String,
}

impl Call {
    fn of(value: &Value) -> Option<Self> {
        let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
        let name = function.get("name")?.as_str()?.to_owned();
        let arguments = function.get("arguments").or_else(|| function.get("parameters"));
        let arguments = match arguments {
            None => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(object) => object.to_string(),
        };
        Some(Self { name, arguments })
    }

    /// As it stands in a message.
    pub fn to_json(&self, id: &str, index: usize, in_stream: bool) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        let mut call = json!({"id": format!("call_{id}_{index}"), "type": "function", "function": function});
        if in_stream {
            call["index"] = index.into();
        }
        call
    }
}

/// The text of an answer without its calls, and the calls.
pub(crate) fn split(text: &str) -> (String, Vec<Call>) {
    if let Some((before, after)) = text.split_once(MISTRAL)
        && let Some(calls) = bare(after)
    {
        return (before.trim_end().to_owned(), calls);
    }
    if let Some(calls) = bare(text) {
        return (String::new(), calls);
    }
    let (mut rest, mut kept, mut calls) = (text, String::new(), vec![]);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (inner, behind) = after.split_once(CLOSE).unwrap_or((after, ""));
        kept.push_str(before);
        match serde_json::from_str(inner.trim()).ok().as_ref().and_then(Call::of) {
            Some(call) => calls.push(call),
            None => kept.push_str(&rest[before.len()..rest.len() - behind.len()]),
        }
        rest = behind;
    }
    kept.push_str(rest);
    if !calls.is_empty() {
        kept = kept.trim().to_owned();
    }
    (kept, calls)
}

/// Calls where a text is nothing else.
fn bare(text: &str) -> Option<Vec<Call>> {
    let value: Value = serde_json::from_str(text.trim()).ok()?;
    match &value {
        Value::Array(list) if !list.is_empty() => list.iter().map(Call::of).collect(),
        Value::Object(_) => Some(vec![Call::of(&value)?]),
        _ => None,
    }
}

/// Holds back the part of a streamed text that may belong to a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    text: String,
    /// Whether something was let through.
    passed: bool,
}

impl Held {
    /// Takes the next piece, and returns what is certainly no call.
    pub fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        if !self.passed && matches!(self.text.trim_start().chars().next(), None | Some('{' | '[' | '<')) {
            return String::new();
        }
        let call = MARKS.iter().filter_map(|mark| self.text.find(mark)).min();
        let open = call.unwrap_or_else(|| self.text.len() - begun(&self.text));
        let rest = self.text.split_off(open);
        self.passed |= !self.text.is_empty();
        std::mem::replace(&mut self.text, rest)
    }

    /// The part that was held back.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Bytes at the end of a text with which a mark begins.
fn begun(text: &str) -> usize {
    let ends = |mark: &str| (1..mark.len()).rev().find(|&length| text.ends_with(&mark[..length]));
    MARKS.iter().filter_map(|mark| ends(mark)).max().unwrap_or(0)
}
