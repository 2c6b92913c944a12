//! `/v1/completions`.

use super::error::{ApiError, quoted};
use super::fields::Fields;
use super::sampling::{Sampling, TOP_LOGPROBS, ids};
use gorgon_core::Token;
use serde_json::Value;

/// Prompts of one request at most.
const PROMPTS: usize = 64;

/// A prompt as it is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt {
    Text(String),
    Ids(Vec<Token>),
}

/// A request to continue texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Completion {
    pub sampling: Sampling,
    pub prompts: Vec<Prompt>,
    pub logprobs: Option<usize>,
    /// Whether a text gets the special tokens that the tokenizer puts around every text.
    pub add_special: bool,
}

impl Completion {
    /// Parses a body. At most `most_answers` answers may be asked for.
    pub fn parse(body: &[u8], most_answers: usize, vocab_size: usize) -> Result<Self, ApiError> {
        let mut fields = Fields::read(body)?;
        let sampling = Sampling::take(&mut fields, most_answers)?;
        let prompt = fields.take("prompt").ok_or_else(|| ApiError::field("prompt", "prompt is missing"))?;
        let prompts = prompts(prompt, vocab_size)?;
        if prompts.len() * sampling.n > most_answers {
            let message = format!("{} prompts with n {}: at most {most_answers} answers", prompts.len(), sampling.n);
            return Err(ApiError::field("prompt", message));
        }
        let logprobs = fields.integer("logprobs", 0, TOP_LOGPROBS)?.map(|top| top as usize);
        let add_special = fields.boolean("add_special_tokens")?.unwrap_or(true);
        fields.finish()?;
        Ok(Self { sampling, prompts, logprobs, add_special })
    }
}

/// A string, a list of strings, a list of ids, or a list of lists of ids.
fn prompts(prompt: Value, vocab_size: usize) -> Result<Vec<Prompt>, ApiError> {
    let wrong = |reason: String| ApiError::field("prompt", format!("prompt: {reason}"));
    let list = match prompt {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        Value::Array(list) => list,
        other => return Err(wrong(format!("{} is neither a string nor a list", quoted(&other)))),
    };
    if list.is_empty() {
        return Err(wrong("the list is empty".into()));
    }
    if list[0].is_number() {
        return Ok(vec![Prompt::Ids(ids("prompt", &list, vocab_size)?)]);
    }
    if list.len() > PROMPTS {
        return Err(wrong(format!("{} prompts; at most {PROMPTS} are allowed", list.len())));
    }
    let one = |value: Value| match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(list) => ids("prompt", &list, vocab_size).map(Prompt::Ids),
        other => Err(wrong(format!("{} is neither a string nor a list of token ids", quoted(&other)))),
    };
    list.into_iter().map(one).collect()
}
