//! Variables that a person gives to a chat template.

use serde_json::{Map, Value};

/// Variables by name.
pub type Variables = Map<String, Value>;

/// Names that templates read and that are set for them.
const TAKEN: [&str; 13] = [
    "messages",
    "add_generation_prompt",
    "tools",
    "documents",
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "sep_token",
    "cls_token",
    "mask_token",
    "raise_exception",
    "strftime_now",
];

/// Checks the name and the value of a variable.
///
/// # Errors
/// When the name is none, or one that is set anyway; or the value is not true, false, a number or text.
pub fn check(name: &str, value: &Value) -> Result<(), String> {
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !starts || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Err(format!("{name:?} is no name of a variable"));
    }
    if TAKEN.contains(&name) {
        return Err(format!("{name} is set by gorgon and cannot be given"));
    }
    match value {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        _ => Err(format!("{name} has to be true, false, a number or text")),
    }
}

/// A variable as it is typed, `name=value`: true, false and numbers are those, everything else is text.
///
/// # Errors
/// As of [`check`], or without an equals sign.
pub fn parse(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    check(name, &value)?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests;
