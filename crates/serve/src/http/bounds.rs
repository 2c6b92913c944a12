//! Bounds of the answers that a request asks for, without sockets and without a model: for tests and fuzzing.

use super::shared::{Asked, Shared};
use crate::api::error::ApiError;
use crate::job::Job;
use crate::options::{Model, Options};
use crate::outbox::{Sender, outbox};

type Parse = fn(&Shared, &[u8], &Sender) -> Result<Asked, ApiError>;

/// Parses the bodies of requests as a server does that listens.
pub struct RequestParser(Shared);

/// Bounds of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerBounds {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// New tokens at most.
    pub max_new_tokens: usize,
    /// Texts that end it.
    pub stop: Vec<String>,
    /// Top tokens whose log-probabilities are reported; `None` for no log-probabilities.
    pub logprobs: Option<usize>,
}

impl RequestParser {
    /// For a model, under a server's limits.
    pub fn new(model: Model, options: Options) -> Self {
        Self(Shared::new(model, options))
    }

    /// The answers that a body of `/v1/chat/completions` asks for.
    ///
    /// # Errors
    /// The HTTP status with which the request is refused.
    pub fn chat(&self, body: &[u8]) -> Result<Vec<AnswerBounds>, u16> {
        self.parse(body, Shared::chat)
    }

    /// The answers that a body of `/v1/completions` asks for.
    ///
    /// # Errors
    /// The HTTP status with which the request is refused.
    pub fn completion(&self, body: &[u8]) -> Result<Vec<AnswerBounds>, u16> {
        self.parse(body, Shared::completion)
    }

    fn parse(&self, body: &[u8], parse: Parse) -> Result<Vec<AnswerBounds>, u16> {
        let (sender, _receiver) = outbox();
        let asked = parse(&self.0, body, &sender).map_err(|error| error.status)?;
        Ok(asked.jobs.into_iter().map(AnswerBounds::of).collect())
    }
}

impl AnswerBounds {
    fn of(job: Job) -> Self {
        let Job { prompt, max_new_tokens, stop, logprobs, .. } = job;
        Self { prompt: prompt.len(), max_new_tokens, stop, logprobs }
    }
}
