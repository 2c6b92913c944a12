//! The report of an inspection: properties by name, for people and for programs.

use crate::units::{bytes, count};
use gorgon_runs::visible;
use serde_json::{Value, json};
use std::path::Path;

/// A property.
pub struct Property {
    /// Its key, with the unit of a number in it.
    pub key: String,
    /// Its name, for people.
    pub name: String,
    /// Its value: numbers are numbers.
    pub value: Value,
    /// How a person reads it, where that is not the value itself.
    pub shown: Option<String>,
}

/// The report on a file or folder.
pub struct Report {
    /// `model`, `heads`, `run`, `dataset`, `features` or `tree`.
    pub kind: &'static str,
    /// Properties, in order.
    pub facts: Properties,
    /// Remarks that are no problems.
    pub notes: Vec<String>,
    /// Problems.
    pub problems: Vec<String>,
}

/// A list of properties that is being made.
#[derive(Default)]
pub struct Properties(pub Vec<Property>);

impl Properties {
    /// Adds a property that reads as it is.
    pub(super) fn add(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        self.0.push(Property { name: name(&key), key, value: value.into(), shown: None });
    }

    /// Adds a property under a name for people; the key follows from it.
    pub(super) fn named(&mut self, name: &str, value: Value) {
        let key = name.to_lowercase().replace([' ', '/'], "_");
        self.0.push(Property { key, name: name.into(), value, shown: None });
    }

    /// Adds a property with words of its own.
    pub(super) fn add_as(&mut self, key: &str, value: impl Into<Value>, shown: String) {
        self.0.push(Property { key: key.into(), name: name(key), value: value.into(), shown: Some(shown) });
    }

    /// Adds a size on the disk.
    pub(super) fn size(&mut self, size: u64) {
        self.add_as("size_bytes", size, bytes(size));
    }

    /// Adds a number of things.
    pub(super) fn count(&mut self, key: &str, number: u128) {
        // JSON's numbers are exact far beyond any count of a model.
        self.add_as(key, u64::try_from(number).unwrap_or(u64::MAX), count(number));
    }
}

impl Property {
    /// The fact, for people.
    pub fn words(&self) -> String {
        self.shown.clone().unwrap_or_else(|| words(&self.value))
    }
}

/// A key, for people, to whom a value tells its unit.
fn name(key: &str) -> String {
    key.strip_suffix("_bytes").unwrap_or(key).replace('_', " ")
}

/// Whether a value says nothing, so that it is left out of a list.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value, for people.
pub fn words(value: &Value) -> String {
    match value {
        Value::Null => "unknown".into(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !is_empty(value));
            fields.map(|(key, value)| format!("{key} {}", words(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap_or(f64::NAN)),
        Value::Number(number) => number.to_string(),
    }
}

impl Report {
    /// Copy with as many notes and problems as a person reads.
    pub(super) fn shortened(self) -> Self {
        Self { notes: visible::few(self.notes), problems: visible::few(self.problems), ..self }
    }

    /// As a JSON document.
    pub fn document(&self, path: &Path) -> Value {
        let facts: serde_json::Map<String, Value> =
            self.facts.0.iter().map(|fact| (fact.key.clone(), fact.value.clone())).collect();
        json!({ "path": path.display().to_string(), "kind": self.kind, "facts": facts, "notes": self.notes,
                "problems": self.problems, "ok": self.problems.is_empty() })
    }
}
