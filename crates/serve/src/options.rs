//! The model of a server, and its limits.

use gorgon_data::render::Renderer;
use gorgon_draft::store::LiveStore;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The model as requests see it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The name that requests give.
    pub name: String,
    /// Its tokenizer and chat template.
    pub renderer: Renderer,
    /// Tokens of prompt and answer together at most.
    pub context: usize,
    /// Tokens that the model knows; ids in prompts are below it.
    pub vocab_size: usize,
    /// Seconds since 1970 when it was loaded.
    pub created: u64,
}

/// Limits of requests and connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests that are decoded at once.
    pub batch: usize,
    /// Requests that wait at most, each of the `n` answers of a request counted; one more gets status 429.
    pub queue: usize,
    /// Conversations whose cache is kept, those that are decoded included; at least `batch`.
    pub sessions: usize,
    /// Rows of all caches together at most; at least the model's context.
    pub rows: usize,
    /// Bytes of a request's body at most.
    pub body_bytes: usize,
    /// Connections at most.
    pub connections: usize,
    /// Time of a request from its arrival to its last token.
    pub request_time: Duration,
    /// Time that a client may take to send headers, a body, or to read what it was sent.
    pub client_time: Duration,
    /// Time that requests have to end after the server was asked to stop.
    pub drain_time: Duration,
    /// New tokens where a request does not say how many.
    pub default_tokens: usize,
}

impl Limits {
    /// The limits of a server that decodes `batch` requests at once in caches of `rows` rows in all.
    pub fn new(batch: usize, rows: usize) -> Self {
        Self {
            batch,
            queue: 4 * batch.max(16),
            sessions: 4 * batch,
            rows,
            body_bytes: 4 << 20,
            connections: 512,
            request_time: Duration::from_secs(600),
            client_time: Duration::from_secs(30),
            drain_time: Duration::from_secs(30),
            default_tokens: 1024,
        }
    }
}

/// Where and for whom a server listens.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The key that requests have to bring, if one is asked for.
    pub api_key: Option<String>,
    /// The web origin whose pages may read answers, if any.
    pub cors: Option<String>,
    /// Limits.
    pub limits: Limits,
    /// The answers that the server keeps to draft from, if it does.
    pub store: Option<Arc<LiveStore>>,
    /// Seed of requests that bring none is drawn from this, so that two of them differ.
    pub entropy: u64,
}
