//! A TOML document that knows where each of its values comes from.

use crate::absent;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Config files are small; anything larger is something else.
const MAX_BYTES: u64 = 1 << 20;

/// Keys of one table of which only one counts.
const ALTERNATIVES: [[&str; 2]; 2] = [["training.steps", "training.epochs"], ["budget.steps", "budget.epochs"]];

/// Where a value comes from.
#[derive(Clone, Debug)]
enum Origin {
    /// A line of the file.
    Line(usize),
    /// An override from the command line, as it was typed.
    Override(String),
}

/// A config as it was written, with overrides applied.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The file as messages name it.
    shown: String,
    pub table: Table,
    /// Origins by the paths of keys, `a.b` or `a[0].b`.
    origins: BTreeMap<String, Origin>,
}

impl Document {
    /// Reads a file and applies `key.path=value` overrides in order.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{shown}: {error}"));
        absent::check(path, "file")?;
        let size = path.metadata().map_err(|error| wrong(&error))?.len();
        if size > MAX_BYTES {
            return Err(wrong(&format_args!("{size} bytes are too many for a config")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
        let mut document = Self::parse(&shown, &text)?;
        overrides.iter().try_for_each(|given| document.apply(given))?;
        Ok(document)
    }

    /// Parses a text that messages call `shown`.
    pub fn parse(shown: &str, text: &str) -> Result<Self, Failure> {
        let wrong = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            Failure::input(format!("{shown}:{line}: {}", error.message().replace('\n', ", ")))
        };
        let spanned = DeTable::parse(text).map_err(wrong)?;
        let table = text.parse::<Table>().map_err(wrong)?;
        let mut origins = BTreeMap::new();
        note_table(spanned.get_ref(), "", text, &mut origins);
        Ok(Self { shown: shown.into(), table, origins })
    }

    /// Applies `a.b=value`: the value is TOML, or text where it is no TOML.
    pub fn apply(&mut self, given: &str) -> Result<(), Failure> {
        let wrong = |reason: &str| Failure::input(format!("override {given}: {reason}; expected key.path=value"));
        let (key, value) = given.split_once('=').ok_or_else(|| wrong("it has no \"=\""))?;
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
        let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
        let mut parts: Vec<&str> = key.split('.').map(str::trim).collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(wrong("an empty part in its key"));
        }
        let path = parts.join(".");
        let last = parts.pop().unwrap_or_default();
        let mut table = &mut self.table;
        let mut made = String::new();
        for part in parts {
            made = joined(&made, part);
            if !table.contains_key(part) {
                self.origins.insert(made.clone(), Origin::Override(given.to_owned()));
            }
            let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().ok_or_else(|| wrong(&format!("{part} is no table")))?;
        }
        table.insert(last.to_owned(), value);
        self.origins.retain(|known, _| !known.strip_prefix(&path).is_some_and(|rest| rest.starts_with(['.', '['])));
        self.drop_alternative(&path, last);
        self.origins.insert(path, Origin::Override(given.to_owned()));
        Ok(())
    }

    /// Takes the file's value of a key away where an override sets the key that counts in its place.
    fn drop_alternative(&mut self, path: &str, last: &str) {
        let Some(pair) = ALTERNATIVES.iter().find(|pair| pair.contains(&path)) else { return };
        let other = pair.iter().find(|key| **key != path).copied().unwrap_or_default();
        if let Some(Origin::Line(_)) = self.origins.get(other)
            && let Some(Value::Table(table)) = self.table.get_mut(path.trim_end_matches(last).trim_end_matches('.'))
        {
            table.remove(other.rsplit('.').next().unwrap_or_default());
            self.origins.remove(other);
        }
    }

    /// Where a key was set, for the beginning of a message: `FILE:LINE`, `override KEY=VALUE`, or the file alone.
    pub fn place(&self, key: &str) -> String {
        let mut path = key;
        loop {
            match self.origins.get(path) {
                Some(Origin::Line(line)) => return format!("{}:{line}", self.shown),
                Some(Origin::Override(given)) => return format!("override {given}"),
                None => {}
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.shown.clone(),
            }
        }
    }

    /// True for the path of a key that the document sets, `a.b`.
    pub fn sets(&self, key: &str) -> bool {
        is_set(&self.table, key)
    }
}

fn is_set(table: &Table, key: &str) -> bool {
    match key.split_once('.') {
        None => table.contains_key(key),
        Some((part, rest)) => table.get(part).and_then(Value::as_table).is_some_and(|inner| is_set(inner, rest)),
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// The path of a key in a table.
pub(super) fn joined(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

fn note_table(table: &DeTable<'_>, path: &str, text: &str, origins: &mut BTreeMap<String, Origin>) {
    for (key, value) in table {
        let path = joined(path, key.get_ref());
        origins.insert(path.clone(), Origin::Line(line_at(text, key.span().start)));
        note_value(value, &path, text, origins);
    }
}

fn note_value(value: &Spanned<DeValue<'_>>, path: &str, text: &str, origins: &mut BTreeMap<String, Origin>) {
    match value.get_ref() {
        DeValue::Table(inner) => note_table(inner, path, text, origins),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}[{i}]");
                origins.insert(path.clone(), Origin::Line(line_at(text, item.span().start)));
                note_value(item, &path, text, origins);
            }
        }
        _ => {}
    }
}
