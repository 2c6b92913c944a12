//! Plain decoding of several sequences at once: the weights are read once for all of them.
//!
//! Each sequence has a slot with a cache of its own. On the CPU a sequence's logits do not depend on which others it is
//! decoded with, so a text is the same whatever the batch.

use gorgon_core::Token;
use gorgon_kernels::tree_attention::Visible;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{Decoder, ModelError, Rows};
use gorgon_model::taps::Taps;
use gorgon_model::target::read;
use std::sync::Arc;

/// Prompt tokens per forward pass: bounds the memory of a long prompt.
const PREFILL_CHUNK: usize = 256;

/// Sequences being decoded together.
#[derive(Debug)]
pub struct Batch {
    decoder: Arc<Decoder>,
    caches: Vec<KvCache>,
}

impl Batch {
    /// `slots` empty sequences of at most `capacity` tokens each.
    pub fn new(decoder: Arc<Decoder>, slots: usize, capacity: usize) -> Self {
        let caches = (0..slots).map(|_| decoder.new_cache(capacity)).collect();
        Self { decoder, caches }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.caches.len()
    }

    /// Tokens that a slot has read.
    pub fn len(&self, slot: usize) -> usize {
        self.caches[slot].len()
    }

    /// True if no slot has read a token.
    pub fn is_empty(&self) -> bool {
        self.caches.iter().all(KvCache::is_empty)
    }

    /// Forgets a slot's sequence.
    pub fn reset(&mut self, slot: usize) {
        self.caches[slot].truncate(0);
    }

    /// Drops what a slot has read from `length` on.
    pub fn truncate(&mut self, slot: usize, length: usize) {
        self.caches[slot].truncate(length);
    }

    /// Reads tokens into a slot. Returns the logits after the last of them, `[V]`.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary.
    pub fn prefill(&mut self, slot: usize, tokens: &[Token]) -> Result<Vec<f32>, ModelError> {
        let mut last = None;
        let cache = &mut self.caches[slot];
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            cache.reserve(chunk.len())?;
            let visible = Visible::Causal { rows: chunk.len() };
            let output = self.decoder.forward(chunk, &visible, cache, &Taps::none());
            if output.is_err() {
                cache.roll_back();
            }
            let output = output?;
            cache.commit(&(0..chunk.len()).collect::<Vec<_>>())?;
            last = Some(output.hidden.narrow(1, chunk.len() - 1, 1));
        }
        let last = last.ok_or(ModelError::EmptyPrompt)?;
        Ok(read(self.decoder.logits(&last)))
    }

    /// Reads one token into each of some slots (each named once, in increasing order). Returns their logits,
    /// `[slots · V]`.
    ///
    /// # Errors
    /// When there is nothing to read, a slot is full, or a token is outside the vocabulary.
    pub fn step(&mut self, tokens: &[(usize, Token)]) -> Result<Vec<f32>, ModelError> {
        let visible = Visible::Causal { rows: 1 };
        let mut wanted = tokens.iter().peekable();
        let mut batch = vec![];
        for (slot, cache) in self.caches.iter_mut().enumerate() {
            if let Some((_, token)) = wanted.next_if(|(wanted, _)| *wanted == slot) {
                cache.reserve(1)?;
                batch.push(Rows { tokens: std::slice::from_ref(token), visible: &visible, cache });
            }
        }
        let output = self.decoder.forward_batch(&mut batch, &Taps::none());
        for rows in batch {
            match &output {
                Ok(_) => rows.cache.commit(&[0])?,
                Err(_) => rows.cache.roll_back(),
            }
        }
        Ok(read(self.decoder.logits(&output?.hidden)))
    }
}
