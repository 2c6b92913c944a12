//! Hints from a `config.json` beside draft heads. Nothing in it is trusted over the tensors.

use super::specs::{Size, SizeHint};
use super::tensor_index::{Report, shown};
use serde_json::{Map, Value};

/// Heads that a config can hint: published ones have up to 8.
const MOST_HEADS: usize = 256;

/// A config, or one object inside it.
#[derive(Clone)]
pub(super) struct ConfigHints<'a> {
    object: Option<&'a Map<String, Value>>,
    /// Where the object is within the config, with a dot at the end; empty for the config itself.
    at: String,
}

impl<'a> ConfigHints<'a> {
    pub fn new(config: Option<&'a Value>, report: &mut Report) -> Self {
        let object = config.and_then(Value::as_object);
        if config.is_some() && object.is_none() {
            report.problem("config.json: no JSON object");
        }
        Self { object, at: String::new() }
    }

    /// True if there is a config, so that an absent key means the default of whoever reads it.
    pub fn given(&self) -> bool {
        self.object.is_some()
    }

    /// The object that a key holds; nothing is named if there is none.
    pub fn within(&self, key: &str) -> Self {
        Self { object: self.get(key).and_then(Value::as_object), at: format!("{}{key}.", self.at) }
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.object.into_iter().flat_map(|object| object.keys().map(String::as_str))
    }

    /// The key as it reads from the top of the config.
    pub fn path(&self, key: &str) -> String {
        format!("{}{key}", self.at)
    }

    /// A value; `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.object?.get(key).filter(|value| !value.is_null())
    }

    /// True if the key is there and `null`.
    pub fn is_null(&self, key: &str) -> bool {
        self.object.and_then(|object| object.get(key)).is_some_and(Value::is_null)
    }

    /// A string.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    /// A number of things that there is at least one of; anything else is a problem.
    pub fn count(&self, key: &str, report: &mut Report) -> Option<usize> {
        let value = self.get(key)?;
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        self.typed(key, value, count, "a count of 1 or more", report)
    }

    /// A number of heads or modules.
    pub fn heads(&self, key: &str, report: &mut Report) -> Option<usize> {
        let count = self.count(key, report)?;
        let heads = Some(count).filter(|count| *count <= MOST_HEADS);
        self.typed(key, &count.into(), heads, &format!("a count from 1 to {MOST_HEADS}"), report)
    }

    /// A size of tensors.
    pub fn size(&self, key: &str, size: Size, report: &mut Report) -> Option<SizeHint> {
        self.count(key, report).map(|value| SizeHint { key: self.path(key), size, value })
    }

    /// A truth value; anything else is a problem.
    pub fn flag(&self, key: &str, report: &mut Report) -> Option<bool> {
        let value = self.get(key)?;
        self.typed(key, value, value.as_bool(), "true or false", report)
    }

    /// A list of layer numbers; anything else is a problem.
    pub fn layers(&self, key: &str, report: &mut Report) -> Option<Vec<usize>> {
        let value = self.get(key)?;
        let layer = |value: &Value| value.as_u64().and_then(|layer| usize::try_from(layer).ok());
        let layers = value.as_array().and_then(|list| list.iter().map(layer).collect());
        self.typed(key, value, layers, "a list of layer numbers", report)
    }

    fn typed<T>(&self, key: &str, value: &Value, read: Option<T>, wanted: &str, report: &mut Report) -> Option<T> {
        if read.is_none() {
            let found = shown(&value.to_string());
            report.problem(format!("config.json: {} is {found}, not {wanted}", self.path(key)));
        }
        read
    }

    /// The class names under `architectures`.
    pub fn architectures(&self) -> impl Iterator<Item = &'a str> {
        self.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The method that the config is written for, with the key that tells, if it tells.
    pub fn method(&self) -> Option<(&'static str, String)> {
        let key = |keys: &[&str]| keys.iter().find(|key| self.get(key).is_some()).map(ToString::to_string);
        if let Some(key) = key(&["hydra_num_heads", "hydra_head_arch"]) {
            return Some(("hydra", key));
        }
        if let Some(key) = key(&["medusa_num_heads", "num_medusa_heads", "medusa"]) {
            return Some(("medusa", key));
        }
        if self.text("model_type") == Some("medusa") {
            return Some(("medusa", "model_type".into()));
        }
        let classes = [("eagle", "eagle"), ("dflash", "block"), ("kangaroo", "kangaroo")];
        let method = |name: &str| {
            let name = name.to_ascii_lowercase();
            classes.iter().find(|(part, _)| name.contains(part)).map(|(_, method)| *method)
        };
        self.architectures().find_map(method).map(|method| (method, "architectures".into()))
    }
}
