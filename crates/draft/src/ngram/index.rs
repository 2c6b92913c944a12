//! An index of the n-grams of a text.

use gorgon_core::Token;
use std::collections::HashMap;

/// Stands for no position.
const NONE: usize = usize::MAX;

/// The n-grams of a text by length, each with the positions where it ends. Extended and cut at the end of the text.
#[derive(Clone, Debug)]
pub(super) struct NgramIndex {
    /// The longest n-gram.
    n: usize,
    text: Vec<Token>,
    /// The last position at which an n-gram of this length and hash ends.
    last: HashMap<(usize, u64), usize>,
    /// `[positions · n]`: of the n-gram of length `i + 1` that ends at a position, the position before at which one of
    /// its length and hash ends.
    before: Vec<usize>,
}

impl NgramIndex {
    /// An index of n-grams of up to `n` tokens.
    pub fn new(n: usize) -> Self {
        Self { n, text: vec![], last: HashMap::new(), before: vec![] }
    }

    pub fn text(&self) -> &[Token] {
        &self.text
    }

    pub fn push(&mut self, token: Token) {
        self.text.push(token);
        let position = self.text.len() - 1;
        for length in 1..=self.n {
            let gram = (position + 1).checked_sub(length).map(|from| &self.text[from..]);
            self.before.push(gram.and_then(|gram| self.last.insert(key(gram), position)).unwrap_or(NONE));
        }
    }

    /// Cuts the text to `length` tokens, if it is longer.
    pub fn truncate(&mut self, length: usize) {
        while self.text.len() > length {
            let position = self.text.len() - 1;
            for length in 1..=self.n.min(position + 1) {
                let key = key(&self.text[position + 1 - length..]);
                match self.before[position * self.n + length - 1] {
                    NONE => self.last.remove(&key),
                    before => self.last.insert(key, before),
                };
            }
            self.text.pop();
            self.before.truncate(position * self.n);
        }
    }

    /// The positions at which n-grams with the hash of `gram` end, the latest first.
    pub fn looked_at(&self, gram: &[Token]) -> impl Iterator<Item = usize> {
        let before = |position: &usize| self.before[position * self.n + gram.len() - 1];
        let known = |position: usize| Some(position).filter(|&position| position != NONE);
        let last = if gram.is_empty() { None } else { self.last.get(&key(gram)).copied() };
        std::iter::successors(last, move |position| known(before(position)))
    }

    /// The positions at which `gram` ends, the latest first.
    pub fn ends(&self, gram: &[Token]) -> impl Iterator<Item = usize> {
        self.looked_at(gram).filter(move |end| self.text[..=*end].ends_with(gram))
    }
}

/// Length and hash.
fn key(gram: &[Token]) -> (usize, u64) {
    let mix = |hash: u64, token: &Token| (hash.rotate_left(5) ^ u64::from(*token)).wrapping_mul(0x517c_c1b7_2722_0a95);
    (gram.len(), gram.iter().fold(1, mix))
}
