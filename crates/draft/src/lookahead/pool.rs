//! The n-grams that a window made, by their first token.

use gorgon_core::Token;
use std::collections::BTreeMap;

/// Up to `most` tuples per key, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    most: usize,
    tuples: BTreeMap<Token, Vec<Vec<Token>>>,
}

impl Pool {
    pub fn new(most: usize) -> Self {
        Self { most, tuples: BTreeMap::new() }
    }

    pub fn clear(&mut self) {
        self.tuples.clear();
    }

    /// Adds a tuple as the newest of its key; an equal one moves there, and beyond `most` the oldest leaves.
    pub fn insert(&mut self, key: Token, tuple: Vec<Token>) {
        if self.most == 0 {
            return;
        }
        let tuples = self.tuples.entry(key).or_default();
        tuples.retain(|known| *known != tuple);
        tuples.push(tuple);
        if tuples.len() > self.most {
            tuples.remove(0);
        }
    }

    /// Removes a tuple of a key, if it is there.
    pub fn remove(&mut self, key: Token, tuple: &[Token]) {
        if let Some(tuples) = self.tuples.get_mut(&key) {
            tuples.retain(|known| *known != tuple);
        }
    }

    /// The tuples of a key.
    pub fn guesses(&self, key: Token) -> &[Vec<Token>] {
        self.tuples.get(&key).map_or(&[], Vec::as_slice)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Token, &[Vec<Token>])> {
        self.tuples.iter().map(|(&key, tuples)| (key, tuples.as_slice()))
    }
}
