//! Streaming detokenisation.

use super::{Tokenizer, TokenizerError};

/// Decodes ids as they arrive into pieces of text that never cut a character in two.
///
/// The pieces in a row, with [`finish`](Self::finish) at the end, are exactly [`Tokenizer::decode`] of all ids. To
/// keep that promise a piece may be held back: until a character is complete, and, for tokenizers that spell rare
/// characters as byte tokens, until the run of byte tokens ends, because one wrong byte makes the whole run undecodable.
///
/// Each id costs amortised constant time: only the ids since the last piece are decoded, with the token before them as
/// context for spaces.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    skip_special: bool,
    /// The last token of the previous piece.
    context: Option<u32>,
    /// Ids of which no text is out yet.
    pending: Vec<u32>,
    /// Decode again only when this many ids are pending. It grows geometrically while the text ends inside a character,
    /// so that a model that babbles broken bytes does not make decoding quadratic.
    next_try: usize,
}

impl Tokenizer {
    /// A decoder for ids that arrive one after another.
    pub fn stream(&self, skip_special: bool) -> StreamDecoder {
        StreamDecoder::new(self.clone(), skip_special)
    }
}

impl StreamDecoder {
    /// Stands before the first id.
    fn new(tokenizer: Tokenizer, skip_special: bool) -> Self {
        Self { tokenizer, skip_special, context: None, pending: Vec::new(), next_try: 0 }
    }

    /// Takes the next id and returns the text that became certain, often empty.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let Some(token) = self.tokenizer.token(id) else { return Ok(String::new()) };
        if self.skip_special && self.tokenizer.inner.hidden.contains(&id) {
            return Ok(String::new());
        }
        self.pending.push(id);
        if is_byte_token(&token) || self.pending.len() < self.next_try {
            return Ok(String::new());
        }
        match self.new_text()? {
            Some(text) if !text.ends_with(char::REPLACEMENT_CHARACTER) => {
                self.restart(Some(id));
                Ok(text)
            }
            _ => {
                self.next_try = self.pending.len() + 1 + self.pending.len() / 4;
                Ok(String::new())
            }
        }
    }

    /// Returns the text still held back and makes the decoder ready for another sequence.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn finish(&mut self) -> Result<String, TokenizerError> {
        let text = match self.new_text()? {
            Some(text) => text,
            None => self.tokenizer.decode(&self.pending, self.skip_special)?,
        };
        self.restart(None);
        Ok(text)
    }

    /// The text of the pending ids after the context, or `None` where the decoder changes the context's own text.
    fn new_text(&self) -> Result<Option<String>, TokenizerError> {
        if self.pending.is_empty() {
            return Ok(Some(String::new()));
        }
        let context = self.context.as_slice();
        let before = self.tokenizer.decode(context, self.skip_special)?;
        let all = self.tokenizer.decode(&[context, self.pending.as_slice()].concat(), self.skip_special)?;
        Ok(all.strip_prefix(&before).map(str::to_owned))
    }

    fn restart(&mut self, context: Option<u32>) {
        self.context = context;
        self.pending.clear();
        self.next_try = 0;
    }
}

/// A token that stands for one byte, spelled `<0x0A>`.
fn is_byte_token(token: &str) -> bool {
    token.len() == 6
        && token
            .strip_prefix("<0x")
            .and_then(|t| t.strip_suffix('>'))
            .is_some_and(|t| u8::from_str_radix(t, 16).is_ok())
}
