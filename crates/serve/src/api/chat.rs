//! `/v1/chat/completions`.

use super::error::{ApiError, quoted};
use super::fields::Fields;
use super::sampling::{Sampling, TOP_LOGPROBS};
use gorgon_text::variables::check;
use serde_json::{Map, Value};

/// Messages and tools of one request at most.
const MESSAGES: usize = 4096;
const TOOLS: usize = 128;

/// A request to answer a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chat {
    pub sampling: Sampling,
    /// As chat templates expect them.
    pub messages: Vec<Value>,
    /// Definitions of tools that may be called.
    pub tools: Option<Value>,
    pub logprobs: Option<usize>,
    /// Variables for the chat template, as vLLM and SGLang name them.
    pub variables: Map<String, Value>,
}

impl Chat {
    /// Parses a body. At most `most_answers` answers may be asked for.
    pub fn parse(body: &[u8], most_answers: usize) -> Result<Self, ApiError> {
        let mut fields = Fields::read(body)?;
        let sampling = Sampling::take(&mut fields, most_answers)?;
        let messages = fields.take("messages").ok_or_else(|| ApiError::field("messages", "messages is missing"))?;
        let messages = messages_of(messages)?;
        let tools = tools(&mut fields)?;
        let wanted = fields.boolean("logprobs")?.unwrap_or(false);
        let top = fields.integer("top_logprobs", 0, TOP_LOGPROBS)?.map(|top| top as usize);
        if top.is_some() && !wanted {
            return Err(ApiError::field("top_logprobs", "top_logprobs: only allowed with logprobs true"));
        }
        let variables = match fields.take("chat_template_kwargs") {
            None => Map::new(),
            Some(Value::Object(variables)) => {
                let wrong = variables.iter().find_map(|(name, value)| check(name, value).err());
                if let Some(wrong) = wrong {
                    let message = format!("chat_template_kwargs: {wrong}");
                    return Err(ApiError::field("chat_template_kwargs", message));
                }
                variables
            }
            Some(other) => {
                let message = format!("chat_template_kwargs: {} is no object", quoted(&other));
                return Err(ApiError::field("chat_template_kwargs", message));
            }
        };
        fields.finish()?;
        let logprobs = wanted.then(|| top.unwrap_or(0));
        Ok(Self { sampling, messages, tools, logprobs, variables })
    }
}

/// The tools that may be called, none where `tool_choice` forbids them.
fn tools(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let choice = fields.take("tool_choice");
    let tools = match fields.take("tools") {
        None => None,
        Some(Value::Array(tools)) if tools.len() <= TOOLS && tools.iter().all(Value::is_object) => {
            Some(Value::Array(tools)).filter(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty()))
        }
        Some(other) => {
            let message = format!("tools: {} is no list of at most {TOOLS} objects", quoted(&other));
            return Err(ApiError::field("tools", message));
        }
    };
    match choice.as_ref().map(Value::as_str) {
        None | Some(Some("auto")) => Ok(tools),
        Some(Some("none")) => Ok(None),
        _ => {
            let shown = choice.as_ref().map(quoted).unwrap_or_default();
            let message = format!("tool_choice: {shown} is not supported; auto and none are");
            Err(ApiError::field("tool_choice", message).code("unsupported_parameter"))
        }
    }
}

/// The messages with plain texts as their contents.
fn messages_of(given: Value) -> Result<Vec<Value>, ApiError> {
    let wrong = |reason: String| ApiError::field("messages", format!("messages: {reason}"));
    let Value::Array(given) = given else { return Err(wrong(format!("{} is no list", quoted(&given)))) };
    if given.is_empty() || given.len() > MESSAGES {
        return Err(wrong(format!("{} messages; there must be 1 to {MESSAGES}", given.len())));
    }
    let place =
        |at: usize, error: String| ApiError::field(&format!("messages[{at}]"), format!("messages[{at}]: {error}"));
    given.into_iter().enumerate().map(|(at, one)| message(one).map_err(|error| place(at, error))).collect()
}

/// A message: its role, its content as one text, and what belongs to tools.
fn message(given: Value) -> Result<Value, String> {
    let Value::Object(mut given) = given else { return Err(format!("{} is no object", quoted(&given))) };
    let role = match given.remove("role") {
        Some(Value::String(role)) => role,
        other => return Err(format!("role: {} is no string", quoted(&other.unwrap_or_default()))),
    };
    let role = match role.as_str() {
        "system" | "user" | "assistant" | "tool" => role,
        "developer" => "system".to_owned(),
        _ => return Err(format!("role: {} is unknown", quoted(&role.into()))),
    };
    let content = content(given.remove("content").unwrap_or_default())?;
    if content.is_none() && role != "assistant" {
        return Err("content is missing".into());
    }
    let mut message = Map::new();
    message.insert("role".into(), role.clone().into());
    message.insert("content".into(), content.unwrap_or_default().into());
    for name in ["name", "tool_call_id", "reasoning_content"] {
        match given.remove(name).filter(|value| !value.is_null()) {
            None => {}
            Some(Value::String(text)) => drop(message.insert(name.into(), text.into())),
            Some(other) => return Err(format!("{name}: {} is no string", quoted(&other))),
        }
    }
    if let Some(calls) = given.remove("tool_calls").filter(|value| !value.is_null()) {
        message.insert("tool_calls".into(), calls_of(calls)?);
    }
    // Answers of this and other servers carry these; they say nothing.
    for name in ["refusal", "annotations", "audio", "function_call"] {
        let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if given.get(name).is_some_and(empty) {
            given.remove(name);
        }
    }
    match given.keys().next() {
        None => Ok(message.into()),
        Some(other) => Err(format!("{} is not supported", quoted(&other.as_str().into()))),
    }
}

/// A content: a text, parts of text, or nothing.
fn content(given: Value) -> Result<Option<String>, String> {
    let parts = match given {
        Value::Null => return Ok(None),
        Value::String(text) => return Ok(Some(text)),
        Value::Array(parts) => parts,
        other => return Err(format!("content: {} is neither a string nor a list of parts", quoted(&other))),
    };
    let mut text = String::new();
    for part in &parts {
        match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
            (Some("text"), Some(piece)) => text.push_str(piece),
            _ => return Err(format!("content: the part {} is not supported; only text is", quoted(part))),
        }
    }
    Ok(Some(text))
}

/// Calls of tools, their arguments as objects: clients send them as JSON in a string, and templates expect objects.
fn calls_of(given: Value) -> Result<Value, String> {
    let Value::Array(mut calls) = given else { return Err(format!("tool_calls: {} is no list", quoted(&given))) };
    for call in &mut calls {
        let name = call.pointer("/function/name").and_then(Value::as_str);
        if name.is_none() {
            return Err(format!("tool_calls: {} names no function", quoted(call)));
        }
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(parsed) = parsed.filter(Value::is_object) {
            *arguments = parsed;
        }
    }
    Ok(Value::Array(calls))
}
