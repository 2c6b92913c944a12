//! Asks a server for streamed answers.

use crate::failure::Failure;
use gorgon_runs::json;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, Body};

/// The environment variable with the API key.
const KEY: &str = "GORGON_API_KEY";
/// Bytes of an answer at most.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of an error or a list of models at most.
const SHORT_BODY: u64 = 1 << 20;
/// Bytes of a store at most.
const MOST_STORE: u64 = 1 << 36;
/// Longest time without an answer.
const PATIENCE: Duration = Duration::from_secs(900);

/// A server.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// Without `/v1`.
    url: String,
    key: Option<String>,
    /// The model that it serves.
    pub model: String,
}

/// A part of a streamed answer.
#[derive(Clone, Copy, Debug)]
pub enum Streamed<'a> {
    /// Text, and whether it was drafted; a server that does not say drafts nothing.
    Text(&'a str, bool),
    /// Numbers of the answer, as llama.cpp's server reports them.
    Timings(&'a Value),
    /// Tokens of prompt and answer.
    Usage(&'a Value),
}

impl Client {
    /// The server at an address, with the first model that it lists.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn open(url: &str) -> Result<Self, Failure> {
        let trimmed = url.trim_end_matches('/');
        if !["http://", "https://"].iter().any(|scheme| trimmed.starts_with(scheme)) {
            let message = format!("{url}: an address begins with http:// or https://");
            return Err(Failure::input(message).hint(format!("http://{trimmed}")));
        }
        let url = trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned();
        let config = Agent::config_builder()
            .user_agent(concat!("gorgon/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(PATIENCE));
        let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
        let mut client = Self { agent: config.build().into(), url, key, model: String::new() };
        let list = client.list()?;
        let first = list.pointer("/data/0/id").and_then(Value::as_str);
        let none = || Failure::run(format!("{}: the server lists no model", client.url));
        client.model = first.ok_or_else(none)?.to_owned();
        Ok(client)
    }

    fn list(&self) -> Result<Value, Failure> {
        let mut response = self.get("models")?;
        let body = response.body_mut().with_config().limit(SHORT_BODY).read_to_vec();
        json::read(&body.map_err(|error| self.failed(&error))?).map_err(|error| self.failed(&error))
    }

    /// Writes the answers that the server keeps to draft from, as a store file.
    ///
    /// # Errors
    /// When the server cannot be asked, keeps none, breaks off, or does not say beforehand how long the file is; or it
    /// cannot be written.
    pub fn store(&self, file: &mut dyn Write) -> Result<(), Failure> {
        let mut response = self.get("store")?;
        let bytes = response.body().content_length();
        let said = bytes.filter(|&bytes| bytes <= MOST_STORE);
        let unsaid = || self.failed(&format_args!("it names no length of its store of at most {MOST_STORE} bytes"));
        let mut body = response.body_mut().as_reader().take(said.ok_or_else(unsaid)?);
        let copied = io::copy(&mut body, file).map_err(|error| self.failed(&error))?;
        if Some(copied) != said {
            return Err(self.failed(&"the store was broken off"));
        }
        Ok(())
    }

    /// The answer to a request for a path below `/v1`.
    fn get(&self, path: &str) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(format!("{}/v1/{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = request.call().map_err(|error| self.failed(&error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.refused(response.status().as_u16(), &short_text(&mut response))),
        }
    }

    /// Asks for an answer to some messages and shows its parts to `show`, which ends it by breaking.
    ///
    /// # Errors
    /// When the server cannot be asked, refuses, or breaks off.
    pub fn stream(
        &self,
        messages: &[Value],
        options: &Value,
        show: &mut dyn FnMut(Streamed<'_>) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let mut body = json!({
            "model": self.model, "messages": messages, "stream": true, "stream_options": {"include_usage": true},
        });
        if let (Value::Object(body), Value::Object(options)) = (&mut body, options) {
            body.extend(options.clone());
        }
        let mut request = self.agent.post(format!("{}/v1/chat/completions", self.url));
        request = request.header("Content-Type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body.to_string()).map_err(|error| self.failed(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response.status().as_u16(), &short_text(&mut response)));
        }
        let mut lines = BufReader::new(response.into_body().into_reader().take(MOST_BYTES));
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line).map_err(|error| self.failed(&error))? == 0 {
                return Err(Failure::run(format!("{}: the answer was broken off", self.url)));
            }
            let Some(data) = line.trim_end().strip_prefix("data: ") else { continue };
            if data == "[DONE]" {
                return Ok(());
            }
            let event: Value = json::read(data.as_bytes()).map_err(|error| self.failed(&error))?;
            if event.get("error").is_some() {
                return Err(self.refused(500, data));
            }
            if self::show(&event, show).is_break() {
                return Ok(());
            }
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::run(format!("{}: {error}", self.url)).hint("is gorgon serve running there?")
    }

    /// The failure that the server's own words describe.
    fn refused(&self, status: u16, body: &str) -> Failure {
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        let said = parsed.as_ref().and_then(|body| body.pointer("/error/message")).and_then(Value::as_str);
        let said: String = said.unwrap_or(body).chars().take(300).collect();
        let failure = Failure::run(format!("{}: the server answers {status}: {said}", self.url));
        if status == 401 { failure.hint(format!("{KEY} is the key that is sent")) } else { failure }
    }
}

/// The beginning of a body that says why a request was refused.
fn short_text(response: &mut Response<Body>) -> String {
    let mut text = vec![];
    let read = response.body_mut().as_reader().take(SHORT_BODY).read_to_end(&mut text);
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}

/// The parts of an event.
fn show(event: &Value, show: &mut dyn FnMut(Streamed<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    let choice = event.pointer("/choices/0");
    let pieces = choice.and_then(|choice| choice.get("pieces")).and_then(Value::as_array);
    match pieces {
        Some(pieces) => {
            for piece in pieces {
                let drafted = piece["drafted"].as_bool().unwrap_or(false);
                show(Streamed::Text(piece["text"].as_str().unwrap_or_default(), drafted))?;
            }
        }
        None => {
            let text = choice.and_then(|choice| choice.pointer("/delta/content")).and_then(Value::as_str);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                show(Streamed::Text(text, false))?;
            }
        }
    }
    if let Some(timings) = event.get("timings") {
        show(Streamed::Timings(timings))?;
    }
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
        show(Streamed::Usage(usage))?;
    }
    ControlFlow::Continue(())
}
