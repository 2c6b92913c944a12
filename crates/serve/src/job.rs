//! One answer that is to be decoded.

use crate::outbox::Sender;
use gorgon_core::Token;
use gorgon_core::dist::Transform;
use std::time::Instant;

/// One answer that is to be decoded.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The tokens to continue.
    pub prompt: Vec<Token>,
    /// New tokens at most.
    pub max_new_tokens: usize,
    /// Tokens that end it.
    pub end_tokens: Vec<Token>,
    /// Texts that end it, and are no part of it.
    pub stop: Vec<String>,
    pub transform: Transform,
    pub seed: u64,
    /// Which of several answers to its prompt it is.
    pub sample: usize,
    /// Which of the request's answers it is.
    pub index: usize,
    pub drafts: bool,
    /// Top tokens whose log-probabilities are reported; `None` for no log-probabilities.
    pub logprobs: Option<usize>,
    pub arrived: Instant,
    pub deadline: Instant,
    pub outbox: Sender,
}

impl Job {
    /// Rows of the cache that it may come to need. The last new token is never read.
    pub fn rows(&self) -> usize {
        self.prompt.len() + self.max_new_tokens.saturating_sub(1)
    }
}
