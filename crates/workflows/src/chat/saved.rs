//! Saved conversations: JSON with a list of messages, `{"messages": [{"role": …, "content": …}, …]}`.

use super::conversation::{Conversation, Exchange};
use crate::failure::Failure;
use crate::files;
use serde_json::{Value, json};
use std::path::Path;

/// Longest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Writes a conversation, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn save(conversation: &Conversation, path: &Path) -> Result<(), Failure> {
    files::check_output(path)?;
    files::write_json(path, &json!({ "messages": conversation.messages(0) }))
}

/// Reads a conversation: an object with `messages`, or the list alone.
///
/// # Errors
/// When the file cannot be read, or is no conversation that ends with an answer.
pub fn load(path: &Path) -> Result<Conversation, Failure> {
    let bytes = gorgon_runs::file::read(path, MAX_BYTES).map_err(|error| Failure::io(path, &error))?;
    parse(&bytes).map_err(|reason| Failure::input(format!("{}: {reason}", path.display())))
}

pub(super) fn parse(bytes: &[u8]) -> Result<Conversation, String> {
    let document: Value = gorgon_runs::json::read(bytes).map_err(|error| format!("no JSON: {error}"))?;
    let list = document.get("messages").unwrap_or(&document);
    let list = list.as_array().ok_or("expected a list of messages, or an object with \"messages\"")?;
    let (mut system, mut exchanges) = (None, vec![]);
    let mut open: Option<String> = None;
    for (number, entry) in list.iter().enumerate() {
        let text = |key| entry.get(key).and_then(Value::as_str);
        let wrong = |reason: &str| format!("message {}: {reason}", number + 1);
        let role = text("role").ok_or_else(|| wrong("\"role\" is no text"))?;
        let content = text("content").ok_or_else(|| wrong("\"content\" is no text"))?.to_owned();
        match (role, open.take()) {
            ("system", None) if number == 0 => system = Some(content),
            ("user", None) => open = Some(content),
            ("assistant", Some(user)) => exchanges.push(Exchange { user, assistant: content }),
            ("system" | "user" | "assistant", _) => {
                return Err(wrong(&format!("{role} is out of order: system first, then user and assistant in turns")));
            }
            _ => return Err(wrong(&format!("role {role:?}: expected system, user or assistant"))),
        }
    }
    match open {
        Some(_) => Err("the last message has no answer".into()),
        None => Ok(Conversation::resumed(system, exchanges)),
    }
}

#[cfg(test)]
mod tests;
