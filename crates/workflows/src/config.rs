//! Config files, with overrides from the command line.

use crate::failure::Failure;
use gorgon_train::config::renamed;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::{Table, Value};

/// Config files are small; anything larger is something else.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a TOML file, applies `key.path=value` overrides in order, and checks every key.
///
/// # Errors
/// When the file cannot be read, is no TOML, an override is malformed, or a key is unknown, missing or of a wrong type.
pub fn load<T: DeserializeOwned>(path: &Path, overrides: &[String]) -> Result<T, Failure> {
    let shown = path.display();
    let size = path.metadata().map_err(|error| Failure::input(format!("{shown}: {error}")))?.len();
    if size > MAX_BYTES {
        return Err(Failure::input(format!("{shown}: {size} bytes are too many for a config")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::input(format!("{shown}: {error}")))?;
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
        Failure::input(format!("{shown}: line {line}: {}", error.message().replace('\n', ", ")))
    })?;
    for given in overrides {
        apply(&mut table, given)?;
    }
    let old = renamed(|key| is_set(&table, key));
    if !old.is_empty() {
        return Err(Failure::lines(old.iter().map(|line| format!("{shown}: {line}"))));
    }
    table.try_into().map_err(|error| Failure::input(format!("{shown}: {error}")))
}

/// Whether a config sets a key, `a.b`.
fn is_set(table: &Table, key: &str) -> bool {
    match key.split_once('.') {
        None => table.contains_key(key),
        Some((part, rest)) => table.get(part).and_then(Value::as_table).is_some_and(|inner| is_set(inner, rest)),
    }
}

/// A config that this program was built with.
///
/// # Errors
/// When it is none: a defect of this program.
pub fn embedded<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    toml::from_str(text).map_err(Failure::run)
}

/// Writes the resolved config, so that the run can be repeated from it.
///
/// # Errors
/// When it cannot be written.
pub fn store(path: &Path, config: &impl Serialize) -> Result<(), Failure> {
    let text = toml::to_string(config).map_err(Failure::run)?;
    gorgon_runs::atomic::write(path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::run(format!("{}: {error}", path.display())))
}

/// `a.b=value`: the value is TOML, or text where it is no TOML.
fn apply(table: &mut Table, given: &str) -> Result<(), Failure> {
    let wrong = |reason: &str| Failure::input(format!("{given}: {reason}; expected key.path=value"));
    let (key, value) = given.split_once('=').ok_or_else(|| wrong("it has no \"=\""))?;
    let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.split('.').map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(wrong("an empty part in its key"));
    }
    let last = parts.pop().unwrap_or_default();
    let mut table = table;
    for part in parts {
        let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        table = entry.as_table_mut().ok_or_else(|| wrong(&format!("{part} is no table")))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests;
