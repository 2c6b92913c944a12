//! Counts of short runs of tokens: how much more likely a token is after the two before it.

use crate::Token;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The weight of the shorter context in the estimate for the longer one, in tokens.
const PRIOR: f64 = 1.0;
/// The count of a token that was never seen.
const UNSEEN: f64 = 0.5;
/// Runs that there is room for at first: those of some thousand tokens.
const ROOM: usize = 1 << 14;

/// Counts of the tokens, pairs and triples of a text.
///
/// With `N` tokens in the text, `D` different ones, and `c` the count of a run,
///
/// * `p(x) = (c(x) + 1/2) / (N + (D + 1)/2)`,
/// * `p(x | b) = (c(b, x) + p(x)) / (c(b, ·) + 1)`,
/// * `p(x | a, b) = (c(a, b, x) + p(x | b)) / (c(a, b, ·) + 1)`:
///
/// each estimate counts as one token of the next (MacKay and Peto, 1995: a hierarchical Dirichlet language model).
#[derive(Clone, Debug)]
pub struct NgramCounts {
    text: Vec<Token>,
    /// By a hash of the run. Runs whose hashes are equal are counted together, which costs a draft at worst.
    counts: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    different: usize,
}

/// The counts of what follows two tokens.
#[derive(Clone, Copy, Debug)]
pub struct Following<'a> {
    all: &'a NgramCounts,
    before: [Token; 2],
    pairs: f64,
    triples: f64,
}

impl Default for NgramCounts {
    fn default() -> Self {
        let counts = HashMap::with_capacity_and_hasher(ROOM, BuildHasherDefault::default());
        Self { text: Vec::with_capacity(ROOM / 4), counts, different: 0 }
    }
}

impl NgramCounts {
    /// No text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of tokens in the text.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// True without text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The last token of the text.
    pub fn last(&self) -> Option<Token> {
        self.text.last().copied()
    }

    /// Adds a token to the text.
    pub fn push(&mut self, token: Token) {
        self.text.push(token);
        for length in 1..=self.text.len().min(3) {
            let run = key(&self.text[self.text.len() - length..]);
            let count = self.counts.entry(run).or_insert(0);
            *count += 1;
            self.different += usize::from(length == 1 && *count == 1);
        }
    }

    /// Takes all tokens but the first `length` out of the text.
    pub fn truncate(&mut self, length: usize) {
        while self.text.len() > length {
            for run in 1..=self.text.len().min(3) {
                let counted = key(&self.text[self.text.len() - run..]);
                if let Some(count) = self.counts.get_mut(&counted) {
                    *count = count.saturating_sub(1);
                    self.different -= usize::from(run == 1 && *count == 0).min(self.different);
                }
            }
            self.text.pop();
        }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.text.clear();
        self.counts.clear();
        self.different = 0;
    }

    /// What follows two tokens.
    pub fn after(&self, before: [Token; 2]) -> Following<'_> {
        // The last run of the text is followed by nothing yet.
        let open = |run: &[Token]| f64::from(u8::from(self.text.ends_with(run)));
        let followed = |run: &[Token]| self.count(run) - open(run);
        Following { all: self, before, pairs: followed(&before[1..]), triples: followed(&before) }
    }

    fn count(&self, run: &[Token]) -> f64 {
        f64::from(self.counts.get(&key(run)).copied().unwrap_or(0))
    }
}

impl Following<'_> {
    /// `ln(p(x | a, b) / p(x))`: how much the two tokens before speak for a token; 0 if the last one is new.
    pub fn evidence(&self, token: Token) -> f64 {
        if self.pairs <= 0.0 {
            return 0.0;
        }
        let [a, b] = self.before;
        let all = self.all;
        let alone = (all.count(&[token]) + UNSEEN) / (all.len() as f64 + UNSEEN * (all.different + 1) as f64);
        let pair = (all.count(&[b, token]) + PRIOR * alone) / (self.pairs + PRIOR);
        let triple = match self.triples > 0.0 {
            true => (all.count(&[a, b, token]) + PRIOR * pair) / (self.triples + PRIOR),
            false => pair,
        };
        (triple / alone).ln()
    }
}

/// A hash of a run of tokens (the finaliser of splitmix64 after each).
fn key(run: &[Token]) -> u64 {
    run.iter().fold(run.len() as u64, |state, &token| {
        let mut bits = state.wrapping_add(u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    })
}

/// Takes keys as they are: they are hashes.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests;
