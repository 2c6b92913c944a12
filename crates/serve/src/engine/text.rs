//! An answer's text as its tokens come, up to the first stop string.

use gorgon_core::Token;
use gorgon_text::tokenizer::{StreamDecoder, TokenizerError};

/// Decodes tokens, and holds back what may become a stop string.
#[derive(Debug)]
pub(super) struct Text {
    stream: StreamDecoder,
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

impl Text {
    /// The text of an answer that ends before any of some strings.
    pub fn new(stream: StreamDecoder, stops: Vec<String>) -> Self {
        Self { stream, stops, held: String::new(), stopped: false }
    }

    /// Whether a stop string was met.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Takes the next token, and returns the text that became certain.
    pub fn push(&mut self, token: Token) -> Result<String, TokenizerError> {
        let text = self.stream.push(token)?;
        Ok(self.add(&text))
    }

    /// The text that was held back.
    pub fn finish(&mut self) -> Result<String, TokenizerError> {
        let text = self.stream.finish()?;
        let mut rest = self.add(&text);
        rest.push_str(&std::mem::take(&mut self.held));
        Ok(rest)
    }

    fn add(&mut self, text: &str) -> String {
        if self.stopped {
            return String::new();
        }
        if self.stops.is_empty() {
            return text.to_owned();
        }
        self.held.push_str(text);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.stopped = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let rest = self.held.split_off(self.held.len() - self.begun());
        std::mem::replace(&mut self.held, rest)
    }

    /// Bytes at the end with which a stop string begins.
    fn begun(&self) -> usize {
        let begins = |stop: &String| {
            let lengths = stop.char_indices().map(|(at, _)| at).filter(|&at| at > 0);
            lengths.filter(|&length| self.held.ends_with(&stop[..length])).max()
        };
        self.stops.iter().filter_map(begins).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
