//! The table of successors.

use gorgon_core::Token;
use gorgon_core::dist::top_indices;
use gorgon_core::tree::Candidate;
use gorgon_kernels::softmax::normaliser;

/// The most likely successors of every token, `[V, k]`. Its memory is taken with the first row that is written, and is
/// that of the row's vocabulary.
#[derive(Clone, Debug)]
pub(super) struct SuccessorTable {
    /// Successors of a token at most.
    most: usize,
    /// `k`, the lesser of `most` and `V`.
    width: usize,
    /// `[V]`: whether a row was written.
    known: Vec<bool>,
    /// `[V · k]`, the most likely first.
    tokens: Vec<Token>,
    /// `[V · k]`.
    probabilities: Vec<f32>,
}

impl SuccessorTable {
    /// An empty table.
    pub fn new(most: usize) -> Self {
        Self { most, width: 0, known: vec![], tokens: vec![], probabilities: vec![] }
    }

    /// Bytes of a table of so many successors, at most, over a vocabulary.
    pub fn bytes(most: usize, vocab: usize) -> usize {
        let row = most.min(vocab) * (size_of::<Token>() + size_of::<f32>());
        vocab * (row + size_of::<bool>())
    }

    /// Replaces the successors of a token by the most likely tokens of a row `[V]`. A row that is no distribution is
    /// left out, and one of another vocabulary empties the table first.
    pub fn write(&mut self, token: Token, logits: &[f32]) {
        let (max, sum) = normaliser(logits);
        if !(max.is_finite() && sum.is_finite()) {
            return;
        }
        if self.known.len() != logits.len() {
            self.resize(logits.len());
        }
        let row = token as usize;
        let Some(known) = self.known.get_mut(row) else { return };
        *known = true;
        for (at, &index) in (row * self.width..).zip(&top_indices(logits, self.width)) {
            self.tokens[at] = index as Token;
            self.probabilities[at] = (logits[index] - max).exp() / sum;
        }
    }

    /// The successors of a token, the most likely first; none of one that no row was written for.
    pub fn after(&self, token: Token) -> impl Iterator<Item = Candidate> {
        let row = token as usize;
        let known = self.known.get(row).copied().unwrap_or(false);
        let span = if known { row * self.width..(row + 1) * self.width } else { 0..0 };
        let candidate = |at: usize| Candidate { token: self.tokens[at], probability: self.probabilities[at].into() };
        span.map(candidate).take_while(|candidate| candidate.probability > 0.0)
    }

    fn resize(&mut self, vocab: usize) {
        self.width = self.most.min(vocab);
        self.known = vec![false; vocab];
        self.tokens = vec![0; vocab * self.width];
        self.probabilities = vec![0.0; vocab * self.width];
    }
}
