//! The tokens that can be drafted.

use gorgon_core::Token;
use gorgon_runs::tensors::Stored;
use safetensors::Dtype;

/// A part of the backbone's vocabulary, or all of it: drafted id `i` stands for the `i`-th of its tokens. Files store
/// it as `d2t`, `token = i + d2t[i]`, and as `t2d`, which says of every token whether it is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftVocabulary {
    tokens: Vec<Token>,
    vocab_size: usize,
}

impl DraftVocabulary {
    /// All tokens of a vocabulary.
    pub fn whole(vocab_size: usize) -> Self {
        Self { tokens: (0..vocab_size as Token).collect(), vocab_size }
    }

    /// The `size` tokens that were counted most often, in the order of their ids; of equals those with the lower id.
    /// `counts` has an entry for every token of the backbone.
    pub fn most_frequent(counts: &[u64], size: usize) -> Self {
        let mut tokens: Vec<Token> = (0..counts.len() as Token).collect();
        tokens.sort_by_key(|&token| (std::cmp::Reverse(counts[token as usize]), token));
        tokens.truncate(size);
        tokens.sort_unstable();
        Self { tokens, vocab_size: counts.len() }
    }

    /// From `d2t`.
    ///
    /// # Errors
    /// When an id stands for no token, or two stand for one.
    pub fn from_offsets(offsets: &[i64], vocab_size: usize) -> Result<Self, String> {
        let mut said = vec![None; vocab_size];
        let mut tokens = Vec::with_capacity(offsets.len());
        for (id, &offset) in offsets.iter().enumerate() {
            let token = usize::try_from((id as i64).saturating_add(offset)).ok().filter(|token| *token < vocab_size);
            let Some(token) = token else {
                return Err(format!("d2t[{id}] is {offset}, which leads outside the vocabulary of {vocab_size}"));
            };
            if let Some(other) = said[token].replace(id) {
                return Err(format!("d2t[{other}] and d2t[{id}] both lead to token {token}"));
            }
            tokens.push(token as Token);
        }
        Ok(Self { tokens, vocab_size })
    }

    /// Fails if `t2d` names other tokens.
    ///
    /// # Errors
    /// With the first token on which they differ.
    pub fn check_mask(&self, mask: &[bool]) -> Result<(), String> {
        if mask.len() != self.vocab_size {
            return Err(format!("t2d has {} entries for a vocabulary of {}", mask.len(), self.vocab_size));
        }
        match self.mask().iter().zip(mask).position(|(own, said)| own != said) {
            Some(token) => {
                let (no, yes) = if mask[token] { ("d2t", "t2d") } else { ("t2d", "d2t") };
                Err(format!("token {token} can be drafted according to {yes}, not according to {no}"))
            }
            None => Ok(()),
        }
    }

    /// The tokens, by drafted id.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// True if nothing can be drafted.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// True if drafted ids are the backbone's.
    pub fn is_whole(&self) -> bool {
        self.len() == self.vocab_size && self.tokens.iter().enumerate().all(|(id, &token)| id == token as usize)
    }

    /// `d2t`.
    pub fn offsets(&self) -> Vec<i64> {
        self.tokens.iter().enumerate().map(|(id, &token)| i64::from(token) - id as i64).collect()
    }

    /// `d2t` and `t2d` as files hold them; nothing where every token can be drafted.
    pub fn stored(&self) -> Vec<Stored> {
        if self.is_whole() {
            return vec![];
        }
        let offsets = self.offsets().iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let mask = self.mask().iter().map(|&said| u8::from(said)).collect();
        let stored = |name: &str, dtype, size, bytes| Stored { name: name.into(), dtype, shape: vec![size], bytes };
        vec![stored("d2t", Dtype::I64, self.len(), offsets), stored("t2d", Dtype::BOOL, self.vocab_size, mask)]
    }

    /// `t2d`.
    pub fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.vocab_size];
        self.tokens.iter().for_each(|&token| mask[token as usize] = true);
        mask
    }
}

#[cfg(test)]
mod tests;
