//! The fields that chat and text completions share.

use super::error::{ApiError, quoted};
use super::fields::Fields;
use gorgon_core::Token;
use gorgon_core::dist::{Transform, TransformError};
use serde_json::Value;

/// Stop strings at most, and bytes of one.
const STOPS: usize = 16;
const STOP_BYTES: usize = 1024;
/// Top tokens that are reported at most.
pub(crate) const TOP_LOGPROBS: i64 = 20;
/// The highest temperature.
const HOTTEST: f64 = 100.0;

/// How an answer is made, streamed and ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// The model that is asked for.
    pub model: Option<String>,
    pub stream: bool,
    /// Whether a stream ends with the usage.
    pub include_usage: bool,
    pub transform: Transform,
    pub seed: Option<u64>,
    pub n: usize,
    /// New tokens at most, where the request says.
    pub max_tokens: Option<usize>,
    pub stop: Vec<String>,
    pub ignore_eos: bool,
    /// Whether drafts may be used: an extension.
    pub drafts: bool,
    /// Whether chunks say which of their text was drafted: an extension.
    pub pieces: bool,
    /// Whether choices have their token ids: vLLM's extension.
    pub token_ids: bool,
}

impl Sampling {
    /// Takes the shared fields.
    pub fn take(fields: &mut Fields, most_answers: usize) -> Result<Self, ApiError> {
        let temperature = fields.number("temperature")?.unwrap_or(1.0);
        if temperature > HOTTEST {
            return Err(ApiError::field("temperature", format!("temperature {temperature} is above {HOTTEST}")));
        }
        let top_p = fields.number("top_p")?.filter(|&top_p| top_p != 1.0);
        let top_k = fields.integer("top_k", -1, i64::MAX)?.filter(|&top_k| top_k > 0);
        let top_k = top_k.map(|top_k| usize::try_from(top_k).unwrap_or(usize::MAX));
        let transform = Transform::new(temperature, top_k, top_p).map_err(wrong_transform)?;
        let max_tokens = fields.integer("max_tokens", 1, i64::MAX)?;
        let max_tokens = fields.integer("max_completion_tokens", 1, i64::MAX)?.or(max_tokens);
        let (stream, include_usage) = streaming(fields)?;
        Ok(Self {
            model: fields.text("model")?,
            stream,
            include_usage,
            transform,
            seed: fields.seed("seed")?,
            n: fields.integer("n", 1, most_answers as i64)?.unwrap_or(1) as usize,
            max_tokens: max_tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX)),
            stop: stops(fields)?,
            ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
            drafts: fields.boolean("drafts")?.unwrap_or(true),
            pieces: fields.boolean("pieces")?.unwrap_or(false),
            token_ids: fields.boolean("return_token_ids")?.unwrap_or(false),
        })
    }
}

/// The error of the field that is out of range.
fn wrong_transform(error: TransformError) -> ApiError {
    let field = match error {
        TransformError::Temperature(_) => "temperature",
        TransformError::TopK => "top_k",
        TransformError::TopP(_) => "top_p",
    };
    ApiError::field(field, error)
}

/// `stream` and `stream_options`.
fn streaming(fields: &mut Fields) -> Result<(bool, bool), ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else { return Ok((stream, false)) };
    let wrong = |reason: String| ApiError::field("stream_options", format!("stream_options: {reason}"));
    if !stream {
        return Err(wrong("only allowed with stream true".into()));
    }
    let Value::Object(options) = options else { return Err(wrong(format!("{} is no object", quoted(&options)))) };
    let mut include = false;
    for (name, value) in &options {
        match (name.as_str(), value.as_bool()) {
            ("include_usage", Some(wanted)) => include = wanted,
            // Padding against observers of lengths: there is none.
            ("include_obfuscation", Some(_)) => {}
            ("include_usage" | "include_obfuscation", None) => {
                return Err(wrong(format!("{name}: {} is no boolean", quoted(value))));
            }
            _ => return Err(wrong(format!("{} is not supported", quoted(&name.as_str().into())))),
        }
    }
    Ok((true, include))
}

/// `stop`: a string or several.
fn stops(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let given = match fields.take("stop") {
        None => return Ok(vec![]),
        Some(Value::Array(given)) => given,
        Some(one) => vec![one],
    };
    let wrong = |reason: String| ApiError::field("stop", format!("stop: {reason}"));
    if given.len() > STOPS {
        return Err(wrong(format!("{} strings; at most {STOPS} are allowed", given.len())));
    }
    let one = |value: &Value| match value.as_str() {
        Some("") => Err(wrong("an empty string".into())),
        Some(text) if text.len() > STOP_BYTES => Err(wrong(format!("a string of more than {STOP_BYTES} bytes"))),
        Some(text) => Ok(text.to_owned()),
        None => Err(wrong(format!("{} is no string", quoted(value)))),
    };
    given.iter().map(one).collect()
}

/// A list of token ids.
pub(crate) fn ids(param: &str, list: &[Value], vocab_size: usize) -> Result<Vec<Token>, ApiError> {
    let one = |value: &Value| {
        let id = value.as_u64().filter(|&id| id < vocab_size as u64).and_then(|id| Token::try_from(id).ok());
        let message = || format!("{param}: {} is no token id below {vocab_size}", quoted(value));
        id.ok_or_else(|| ApiError::field(param, message()))
    };
    list.iter().map(one).collect()
}
