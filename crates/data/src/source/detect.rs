//! How a record's keys tell its format.

use super::{clip::clip, format::Format, reason::Reason};
use serde_json::{Map, Value};

impl Format {
    /// The format of `record` and the key that shows it; with `wanted`, only that format will do.
    pub(super) fn of(record: &Map<String, Value>, wanted: Option<Self>) -> Result<(Self, &'static str), Reason> {
        let shown = |format: Self| {
            let key = format.keys().iter().find(|key| record.contains_key(**key))?;
            Some((format, *key))
        };
        match wanted {
            Some(format) => {
                shown(format).ok_or_else(|| Reason::OtherFormat { wanted: format, keys: list_keys(record) })
            }
            None => Self::ALL.into_iter().find_map(shown).ok_or_else(|| match list_of_records(record) {
                Some(key) => Reason::HoldsList { key: clip(key) },
                None => Reason::UnknownFormat { keys: list_keys(record) },
            }),
        }
    }
}

/// The key of a list of objects, which are likely to be the records.
fn list_of_records(record: &Map<String, Value>) -> Option<&str> {
    let is_list = |value: &Value| matches!(value, Value::Array(list) if list.first().is_some_and(Value::is_object));
    record.iter().find(|(_, value)| is_list(value)).map(|(key, _)| key.as_str())
}

/// The first few keys of `record`, for a message.
fn list_keys(record: &Map<String, Value>) -> String {
    const SHOWN: usize = 8;
    let mut list = record.keys().take(SHOWN).map(|key| clip(key)).collect::<Vec<_>>().join(", ");
    if record.len() > SHOWN {
        list += &format!(" and {} more", record.len() - SHOWN);
    }
    if list.is_empty() { "none".to_owned() } else { list }
}
