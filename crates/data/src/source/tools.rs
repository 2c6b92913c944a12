//! Tool calls and their results, as chat templates take them: `tool_calls` of an assistant, messages of a tool.

use super::clip::clip;
use super::reason::Reason;
use serde_json::{Map, Value, json};

/// Keys of a result's message that templates read beside its content.
pub(super) const OF_RESULTS: &[&str] = &["name", "tool_call_id"];
/// Keys of an assistant's message under which its calls are.
pub(super) const OF_CALLS: &[&str] = &["tool_calls", "function_call"];

type Object = Map<String, Value>;

/// The calls that an assistant's message at `place` makes; none where it makes none.
pub(super) fn calls(message: &Object, place: &str) -> Result<Vec<Value>, Reason> {
    let bad = || Reason::BadToolCall { place: place.to_owned() };
    match OF_CALLS.iter().find_map(|key| message.get(*key).filter(|value| !value.is_null())) {
        None => Ok(vec![]),
        Some(Value::Array(list)) => list.iter().map(|given| call(given).ok_or_else(bad)).collect(),
        Some(one) => Ok(vec![call(one).ok_or_else(bad)?]),
    }
}

/// The calls that a text spells as JSON: an object with `name` and `arguments`, or a list of them.
pub(super) fn spelled(text: &str, place: &str) -> Result<Vec<Value>, Reason> {
    let bad = || Reason::BadToolCall { place: place.to_owned() };
    let bare = text.trim().trim_start_matches("<tool_call>").trim_end_matches("</tool_call>").trim();
    let value: Value = gorgon_runs::json::read(bare.as_bytes()).map_err(|_| bad())?;
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(|given| call(given).ok_or_else(bad)).collect(),
        one => Ok(vec![call(&one).ok_or_else(bad)?]),
    }
}

/// A call with its arguments as an object.
fn call(given: &Value) -> Option<Value> {
    let function = given.get("function").filter(|function| function.is_object()).unwrap_or(given);
    let name = function.get("name")?.as_str()?;
    let arguments = match function.get("arguments").or(function.get("parameters")) {
        None | Some(Value::Null) => json!({}),
        Some(Value::String(text)) if text.trim().is_empty() => json!({}),
        Some(Value::String(text)) => gorgon_runs::json::read(text.as_bytes()).ok().filter(Value::is_object)?,
        Some(object) => Some(object.clone()).filter(Value::is_object)?,
    };
    let mut call = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    if let Some(id) = given.get("id").filter(|id| id.is_string()) {
        call["id"] = id.clone();
    }
    Some(call)
}

/// The message of an assistant that calls tools.
pub(super) fn calling(content: &str, calls: Vec<Value>) -> Value {
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

/// The message of a tool.
pub(super) fn result(message: &Object, content: &str) -> Value {
    let mut result = json!({"role": "tool", "content": content});
    for key in OF_RESULTS {
        if let Some(text) = message.get(*key).filter(|value| value.is_string()) {
            result[*key] = text.clone();
        }
    }
    result
}

/// The definitions of tools that a record has: a list, or the text of one.
pub(super) fn definitions(value: Option<&Value>) -> Result<Option<Value>, Reason> {
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => gorgon_runs::json::read(text.as_bytes()).ok(),
        Some(list) => Some(list.clone()),
    };
    match list {
        Some(Value::Array(list)) if list.is_empty() => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.into())),
        _ => {
            let found = clip(&value.map(ToString::to_string).unwrap_or_default());
            Err(Reason::BadTools { found })
        }
    }
}
