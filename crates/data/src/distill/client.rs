//! One answer from a serving engine: an OpenAI-compatible `/completions`, as vLLM, SGLang and others have it.
//!
//! Prompts go as token ids where the server takes them, else as text. Answers come with their ids from servers that
//! know `return_token_ids`; they count as exact if they spell the answer's text. Otherwise the text is tokenised again,
//! and the answer is marked so.

use super::{END_TOKEN, LENGTH};
use crate::render::Renderer;
use gorgon_core::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{Method, Request, StatusCode};

/// The longest list of models, or reason of a refusal, that is read.
const SHORT_BODY: u64 = 1 << 20;
/// Bytes that a token can take in an answer: its id, its text with escapes, and what else servers say of it.
const BYTES_PER_TOKEN: u64 = 1024;
/// The longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Requests to serving engines.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Serving {
    /// Name of the model on the servers; the first one that a server lists if it is not set.
    pub model: Option<String>,
    /// Longest time for an answer, in seconds.
    pub timeout_seconds: f64,
    /// Requests for an answer before the job gives up.
    pub attempts: u32,
    /// First pause after a failed request, in milliseconds. Each further failure doubles it.
    pub pause_ms: u64,
    /// Environment variable that holds the servers' key, if they ask for one.
    pub key_env: Option<String>,
}

impl Default for Serving {
    fn default() -> Self {
        Self { model: None, timeout_seconds: 600.0, attempts: 8, pause_ms: 500, key_env: None }
    }
}

/// A prompt, and how it is to be answered.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The tokens so far.
    pub ids: &'a [Token],
    /// Their text.
    pub text: &'a str,
    /// Whether the text lacks the special tokens that a tokenizer puts around texts.
    pub add_special: bool,
    /// New tokens at most.
    pub max_tokens: usize,
    /// Temperature, nucleus, top tokens.
    pub sampling: (f64, Option<f64>, Option<usize>),
    /// Seed of this answer alone.
    pub seed: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its tokens, the end token included.
    pub ids: Vec<Token>,
    /// How it ended.
    pub end: &'static str,
    /// Whether the ids are not the server's but those of its text.
    pub retokenised: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may pass; the server may say when.
    Passing {
        /// Description of the failure.
        reason: String,
        /// How long to wait.
        wait: Option<Duration>,
    },
    /// The server does not take what it was sent.
    Refused {
        /// Message of the server.
        reason: String,
        /// Whether that may be because the prompt came as ids.
        may_be_ids: bool,
    },
}

fn passing(reason: impl ToString) -> Trouble {
    Trouble::Passing { reason: one_line(reason), wait: None }
}

/// Talks to servers.
pub struct Client<'a> {
    agent: Agent,
    key: Option<String>,
    renderer: &'a Renderer,
    vocab_size: usize,
}

impl<'a> Client<'a> {
    /// A client for answers of a model with this vocabulary.
    pub fn new(serving: &Serving, renderer: &'a Renderer, vocab_size: usize, is_local: bool) -> Self {
        let timeout = Duration::from_secs_f64(serving.timeout_seconds.clamp(0.001, 1e6));
        let config = Agent::config_builder()
            .user_agent(concat!("gorgon/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(timeout.min(Duration::from_secs(10))))
            .timeout_global(Some(timeout));
        // A proxy in the environment is meant for the world outside.
        let config = if is_local { config.proxy(None) } else { config };
        let key = serving.key_env.as_ref().and_then(|name| std::env::var(name).ok());
        Self { agent: config.build().into(), key, renderer, vocab_size }
    }

    /// The first model that a server lists.
    ///
    /// # Errors
    /// When it cannot be asked, or lists none.
    pub fn model(&self, url: &str) -> Result<String, Trouble> {
        let listed = self.send(Method::GET, &format!("{url}/models"), None, SHORT_BODY)?;
        let id = listed.pointer("/data/0/id").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| passing("it lists no models"))
    }

    /// Asks a server for an answer.
    ///
    /// # Errors
    /// When there is none, or none that can be.
    pub fn ask(&self, url: &str, model: &str, question: &Question<'_>, as_text: bool) -> Result<Served, Trouble> {
        let (temperature, top_p, top_k) = question.sampling;
        let mut body = json!({
            "model": model, "max_tokens": question.max_tokens, "temperature": temperature, "top_p": top_p.unwrap_or(1.0),
            "seed": question.seed, "n": 1, "stream": false, "return_token_ids": true,
        });
        if let Some(top_k) = top_k {
            body["top_k"] = top_k.into();
        }
        match as_text {
            true => {
                body["prompt"] = question.text.into();
                body["add_special_tokens"] = question.add_special.into();
            }
            false => body["prompt"] = question.ids.into(),
        }
        // Answers repeat the prompt.
        let limit = SHORT_BODY + BYTES_PER_TOKEN * (question.ids.len() + question.max_tokens) as u64;
        let started = Instant::now();
        let answer = self.send(Method::POST, &format!("{url}/completions"), Some(body.to_string()), limit);
        let served = answer.and_then(|answer| self.read(&answer, question));
        let seconds = started.elapsed().as_secs_f64();
        match &served {
            Ok(Served { ids, end, retokenised }) => {
                tracing::debug!(
                    url,
                    prompt = question.ids.len(),
                    tokens = ids.len(),
                    end,
                    retokenised,
                    seconds,
                    "answered"
                );
            }
            Err(trouble) => tracing::debug!(url, prompt = question.ids.len(), ?trouble, seconds, "not answered"),
        }
        served
    }

    /// The answer in the body that a server returned.
    ///
    /// # Errors
    /// When there is none, none that can be, or the server read another prompt.
    pub fn read(&self, body: &Value, question: &Question<'_>) -> Result<Served, Trouble> {
        let choice = body.pointer("/choices/0").ok_or_else(|| passing("an answer without choices"))?;
        let theirs = choice.get("prompt_token_ids").and_then(ids);
        if theirs.is_some_and(|theirs| theirs != question.ids) {
            let reason = "it reads the prompt as other tokens than this model's tokenizer".into();
            return Err(Trouble::Refused { reason, may_be_ids: false });
        }
        self.read_choice(choice, question)
    }

    /// An answer from a choice.
    fn read_choice(&self, choice: &Value, question: &Question<'_>) -> Result<Served, Trouble> {
        let text = choice.get("text").and_then(Value::as_str).ok_or_else(|| passing("an answer without text"))?;
        let end = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("stop") => END_TOKEN,
            Some("length") => LENGTH,
            other => return Err(passing(format!("an answer that ended for the reason {other:?}"))),
        };
        let ends = self.renderer.end_tokens();
        let close = |mut ids: Vec<Token>| {
            if end == END_TOKEN && !ids.last().is_some_and(|last| ends.contains(last)) {
                ids.extend(ends.first());
            }
            ids
        };
        let given = choice.get("token_ids").and_then(ids).map(close);
        if let Some(ids) = given.filter(|ids| self.spells(ids, text, end, question.max_tokens)) {
            return Ok(Served { ids, end, retokenised: false });
        }
        let mut ids = self.renderer.text().encode(text, false).map_err(passing)?;
        // Text can spell an end token; nothing comes after one.
        if let Some(at) = ids.iter().position(|id| ends.contains(id)) {
            ids.truncate(at + 1);
        }
        let mut ids = close(ids);
        // Servers that go on past the limit are cut off there, as the model itself is.
        let end = if ids.len() > question.max_tokens { LENGTH } else { end };
        ids.truncate(question.max_tokens);
        match ids.is_empty() {
            true => Err(passing("an empty answer that is said to be too long")),
            false => Ok(Served { ids, end, retokenised: true }),
        }
    }

    /// Whether ids can be those of an answer with this text.
    fn spells(&self, ids: &[Token], text: &str, end: &str, max_tokens: usize) -> bool {
        let ends = self.renderer.end_tokens();
        let ended = ids.last().is_some_and(|last| ends.contains(last));
        let said = &ids[..ids.len() - usize::from(ended)];
        let fits = !ids.is_empty()
            && ids.len() <= max_tokens
            && ids.iter().all(|&id| (id as usize) < self.vocab_size)
            && (ended || ends.is_empty()) == (end == END_TOKEN)
            && !said.iter().any(|id| ends.contains(id));
        let spelt = |skip| self.renderer.text().decode(said, skip).is_ok_and(|spelt| spelt.trim() == text.trim());
        fits && (spelt(true) || spelt(false))
    }

    /// The JSON that a server answers, of so many bytes at most.
    fn send(&self, method: Method, url: &str, body: Option<String>, limit: u64) -> Result<Value, Trouble> {
        let refused = |reason: String| Trouble::Refused { reason, may_be_ids: false };
        let mut request = Request::builder().method(method).uri(url).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body).map_err(|e| refused(one_line(e)))?),
            None => self.agent.run(request.body(()).map_err(|e| refused(one_line(e)))?),
        };
        let mut response = response.map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::RequireHttpsOnly(_) => {
                refused(one_line(error))
            }
            error => passing(error),
        })?;
        let (status, headers) = (response.status(), response.headers());
        let wait = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok());
        let wait =
            wait.filter(|wait| *wait >= 0.0).map(|wait| LONGEST_WAIT.min(Duration::from_secs_f64(wait.min(1e6))));
        if status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status) {
            return Err(Trouble::Passing { reason: format!("it answers {status}"), wait });
        }
        let limit = if status.is_success() { limit } else { SHORT_BODY };
        let text = response.body_mut().with_config().limit(limit).read_to_vec();
        if !status.is_success() {
            let said: String = String::from_utf8_lossy(&text.unwrap_or_default()).chars().take(200).collect();
            let may_be_ids = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status);
            return Err(Trouble::Refused { reason: one_line(format!("it answers {status}: {said}")), may_be_ids });
        }
        let text = text.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => passing(format!("an answer of more than {limit} bytes")),
            error => passing(error),
        })?;
        gorgon_runs::json::read(&text).map_err(|error| passing(format!("an answer that is no JSON: {error}")))
    }
}

fn ids(value: &Value) -> Option<Vec<Token>> {
    value.as_array()?.iter().map(|id| Token::try_from(id.as_u64()?).ok()).collect()
}

fn one_line(message: impl ToString) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
