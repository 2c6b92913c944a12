//! Reading a config's fields with a type and a range.

use super::ConfigError;
use serde_json::Value;
use std::path::Path;

/// A JSON object whose fields are read with a type and a range.
pub(crate) struct Fields(pub serde_json::Map<String, Value>);

impl Fields {
    /// True if there is no such field, not even null.
    pub fn is_absent(&self, name: &str) -> bool {
        !self.0.contains_key(name)
    }

    /// A field that is present and not null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn size(&self, name: &str, limit: usize) -> Result<usize, String> {
        let value = self.get(name).ok_or_else(|| format!("{name} is missing"))?;
        match value.as_u64() {
            Some(n) if n > 0 && n <= limit as u64 => Ok(n as usize),
            _ => Err(format!("{name} is {}; a whole number from 1 to {limit} is expected", brief(value))),
        }
    }

    pub fn size_or(&self, name: &str, limit: usize, default: usize) -> Result<usize, String> {
        if self.get(name).is_some() { self.size(name, limit) } else { Ok(default) }
    }

    /// A whole number, zero included.
    pub fn count_or(&self, name: &str, default: usize) -> Result<usize, String> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Ok(n),
                None => Err(format!("{name} is {}; a whole number is expected", brief(value))),
            },
        }
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|v| v.is_finite()) {
                Some(v) => Ok(Some(v)),
                None => Err(format!("{name} is {}; a number is expected", brief(value))),
            },
        }
    }

    pub fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => {
                value.as_bool().ok_or_else(|| format!("{name} is {}; true or false is expected", brief(value)))
            }
        }
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => {
                value.as_str().map(Some).ok_or_else(|| format!("{name} is {}; a text is expected", brief(value)))
            }
        }
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let list = value.as_array().and_then(|list| list.iter().map(|v| v.as_str().map(str::to_owned)).collect());
        list.map(Some).ok_or_else(|| format!("{name} is {}; a list of texts is expected", brief(value)))
    }

    /// Two sizes.
    pub fn pair(&self, name: &str) -> Result<Option<[usize; 2]>, String> {
        const LIMIT: u64 = 1 << 20;
        let Some(value) = self.get(name) else { return Ok(None) };
        let size = |i: usize| value.get(i)?.as_u64().filter(|n| (1..=LIMIT).contains(n)).map(|n| n as usize);
        match (value.as_array().map(Vec::len), size(0), size(1)) {
            (Some(2), Some(first), Some(second)) => Ok(Some([first, second])),
            _ => Err(format!("{name} is {}; two whole numbers from 1 to {LIMIT} are expected", brief(value))),
        }
    }

    /// A token id of a vocabulary, or a list of them.
    pub fn tokens(&self, name: &str, vocab_size: usize) -> Result<Option<Vec<u32>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let list = match value {
            Value::Array(list) => list.iter().map(one).collect::<Option<Vec<u32>>>(),
            one_value => one(one_value).map(|token| vec![token]),
        };
        let list =
            list.ok_or_else(|| format!("{name} is {}; a token id or a list of them is expected", brief(value)))?;
        match list.iter().find(|token| **token as usize >= vocab_size) {
            Some(token) => Err(format!("{name} is {token}; the vocabulary ends with token {}", vocab_size - 1)),
            None => Ok(Some(list)),
        }
    }
}

/// A text in quotes, short enough for a one-line message.
pub(crate) fn quoted(text: &str) -> String {
    brief(&Value::from(text))
}

/// A value short enough for a one-line message.
pub(crate) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A document of a model.
pub(crate) fn read_object(model: &Path, name: &str) -> Result<serde_json::Map<String, Value>, ConfigError> {
    const LIMIT: u64 = 16 << 20;
    let path = || gorgon_gguf::place(model, name);
    let read = |source| ConfigError::Read { path: path(), source };
    let json = |reason: String| ConfigError::Json { path: path(), reason };
    let bytes = gorgon_gguf::read(model, name, LIMIT).map_err(read)?;
    match gorgon_runs::json::read(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(json(format!("it holds {}", brief(&other)))),
        Err(error) => Err(json(error.to_string())),
    }
}
