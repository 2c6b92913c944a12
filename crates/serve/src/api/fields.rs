//! The fields of a request: each is taken once by its name and type, and none may be left that could change the answer.

use super::error::{ApiError, quoted};
use serde_json::{Map, Value};

/// Fields that are accepted and change nothing here. The guide lists them.
pub(crate) const HARMLESS: [&str; 11] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prediction",
    "parallel_tool_calls",
    "cache_prompt",
    "timings_per_token",
];

/// Fields that are accepted with the one value under which they change nothing.
const NEUTRAL: [(&str, &str); 13] = [
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("repetition_penalty", "1"),
    ("repeat_penalty", "1"),
    ("min_p", "0"),
    ("typical_p", "1"),
    ("min_tokens", "0"),
    ("logit_bias", "{}"),
    ("echo", "false"),
    ("best_of", "1"),
    ("modalities", "[\"text\"]"),
    ("response_format", "{\"type\":\"text\"}"),
    ("skip_special_tokens", "true"),
];

/// The object of a body.
#[derive(Debug)]
pub(crate) struct Fields {
    map: Map<String, Value>,
}

impl Fields {
    /// Reads a body. A key that stands twice is refused, since readers disagree on which one counts.
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        let value: Value = gorgon_runs::json::read(body)
            .map_err(|error| ApiError::request(format!("the body is no JSON: {error}")))?;
        match value {
            Value::Object(map) => Ok(Self { map }),
            other => Err(ApiError::request(format!("the body is no JSON object: {}", quoted(&other)))),
        }
    }

    /// Takes a field; null counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field of a type.
    fn typed<T>(
        &mut self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let wrong = || ApiError::field(name, format!("{name}: {} is no {kind}", quoted(&value)));
        read(&value).map(Some).ok_or_else(wrong)
    }

    /// Takes a boolean.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "boolean", Value::as_bool)
    }

    /// Takes a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.typed(name, "string", |value| value.as_str().map(str::to_owned))
    }

    /// Takes a number.
    pub fn number(&mut self, name: &str) -> Result<Option<f64>, ApiError> {
        self.typed(name, "number", Value::as_f64)
    }

    /// Takes an integer in a range.
    pub fn integer(&mut self, name: &str, least: i64, most: i64) -> Result<Option<i64>, ApiError> {
        let Some(number) = self.typed(name, "integer of 64 bits", whole)? else { return Ok(None) };
        if (least..=most).contains(&number) {
            return Ok(Some(number));
        }
        Err(ApiError::field(name, format!("{name}: {number} is out of range; it must be from {least} to {most}")))
    }

    /// Takes a seed: any integer of 64 bits, with or without a sign.
    pub fn seed(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        self.typed(name, "integer of 64 bits", |value| value.as_u64().or_else(|| Some(value.as_i64()?.cast_unsigned())))
    }

    /// Fails if a field is left that is not harmless.
    pub fn finish(self) -> Result<(), ApiError> {
        for (name, value) in self.map.iter().filter(|(_, value)| !value.is_null()) {
            if HARMLESS.contains(&name.as_str()) {
                continue;
            }
            let neutral = NEUTRAL.iter().find(|(neutral, _)| neutral == name).map(|(_, neutral)| *neutral);
            match neutral {
                Some(neutral) if is_same(value, neutral) => {}
                Some(neutral) => {
                    let message = format!("{name}: {} is not supported; only {neutral} is", quoted(value));
                    return Err(ApiError::field(name, message).code("unsupported_parameter"));
                }
                None => {
                    let shown = quoted(&Value::from(name.as_str()));
                    return Err(
                        ApiError::field(&cut(name), format!("{shown} is not supported")).code("unsupported_parameter")
                    );
                }
            }
        }
        Ok(())
    }
}

/// A name as an error repeats it.
fn cut(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Whether a value is the neutral one; numbers may be written either way.
fn is_same(value: &Value, neutral: &str) -> bool {
    match (value.as_f64(), neutral.parse::<f64>()) {
        (Some(given), Ok(neutral)) => given == neutral,
        _ => serde_json::from_str::<Value>(neutral).is_ok_and(|neutral| *value == neutral),
    }
}

/// A whole number, also where it is written with a point.
fn whole(value: &Value) -> Option<i64> {
    /// Below it every whole number has an `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < EXACT);
    value.as_i64().or_else(|| float().map(|number| number as i64))
}
