//! Builds stores.

use super::StoreError;
use super::file::{Body, MOST_ENTRIES, SEPARATOR};
use gorgon_core::Token;
use gorgon_runs::atomic;
use libsais::SuffixArrayConstruction;
use std::path::Path;

/// Collects documents.
#[derive(Clone, Debug)]
pub struct StoreBuilder {
    text: Vec<Token>,
    documents: usize,
}

impl Default for StoreBuilder {
    fn default() -> Self {
        Self { text: vec![SEPARATOR], documents: 0 }
    }
}

impl StoreBuilder {
    /// Adds a document. One without tokens is left out.
    ///
    /// # Errors
    /// When a token or the whole does not fit.
    pub fn add(&mut self, document: &[Token]) -> Result<(), StoreError> {
        if let Some(&token) = document.iter().find(|&&token| token >= SEPARATOR) {
            return Err(StoreError::Token { token, most: SEPARATOR });
        }
        if self.text.len() + document.len() >= MOST_ENTRIES {
            return Err(StoreError::Long { most: MOST_ENTRIES });
        }
        if !document.is_empty() {
            self.text.extend_from_slice(document);
            self.text.push(SEPARATOR);
            self.documents += 1;
        }
        Ok(())
    }

    /// Tokens of all documents.
    pub fn tokens(&self) -> usize {
        self.text.len() - self.documents - 1
    }

    /// Documents that have tokens.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Orders the text, and writes the store, whole or not at all. `tokenizer` is the SHA-256 of the tokenizer.
    ///
    /// # Errors
    /// When there is no document, or the file cannot be written.
    pub fn write(self, path: &Path, tokenizer: &str) -> Result<(), StoreError> {
        let bytes = self.bytes(tokenizer)?;
        atomic::write(path, |file| file.write_all(&bytes)).map_err(StoreError::io(path))
    }

    /// Orders the text: the bytes of a store.
    ///
    /// # Errors
    /// When there is no document.
    pub fn bytes(self, tokenizer: &str) -> Result<Vec<u8>, StoreError> {
        if self.documents == 0 {
            return Err(StoreError::Empty);
        }
        let mut ranks = ranks(&self.text);
        let suffixes = suffix_array(&mut ranks)?;
        ranks.reverse();
        let last = ranks.len() as u32 - 1;
        let mut prefixes = suffix_array(&mut ranks)?;
        prefixes.iter_mut().for_each(|at| *at = last - *at);
        let body = Body { text: self.text, suffixes, prefixes };
        Ok(body.bytes(tokenizer))
    }
}

/// The text with the numbers of its different tokens in their order: the smallest alphabet.
fn ranks(text: &[Token]) -> Vec<i32> {
    let mut known: Vec<Token> = text.to_vec();
    known.sort_unstable();
    known.dedup();
    let mut rank = vec![0; known.last().map_or(0, |&last| last as usize + 1)];
    (0..).zip(&known).for_each(|(i, &token)| rank[token as usize] = i);
    text.iter().map(|&token| rank[token as usize]).collect()
}

/// Positions in the order of what follows them.
fn suffix_array(text: &mut [i32]) -> Result<Vec<u32>, StoreError> {
    let built = SuffixArrayConstruction::for_text_mut(text).in_owned_buffer32().single_threaded().run();
    let array = built.map_err(|error| StoreError::SuffixArray(format!("{error:?}")))?.into_vec();
    Ok(array.into_iter().map(|at| at as u32).collect())
}
