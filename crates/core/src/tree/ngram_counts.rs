//! Counts of short runs of tokens: how much more likely a token is after the two before it.

use super::NgramTable;
use super::ngram_hash::{Counts, key};
use crate::Token;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// The weight of the shorter context in the estimate for the longer one, in tokens.
const PRIOR: f64 = 1.0;
/// The count of a token that was never seen.
const UNSEEN: f64 = 0.5;
/// Runs that there is room for at first: those of some thousand tokens.
const FIRST_ENTRIES: usize = 1 << 14;

/// Counts of the tokens, pairs and triples of a text, which may begin with those of a table.
///
/// With `N` tokens in text and table, `D` different ones, and `c` the count of a run,
///
/// * `p(x) = (c(x) + 1/2) / (N + (D + 1)/2)`,
/// * `p(x | b) = (c(b, x) + p(x)) / (c(b, ·) + 1)`,
/// * `p(x | a, b) = (c(a, b, x) + p(x | b)) / (c(a, b, ·) + 1)`:
///
/// each estimate counts as one token of the next (MacKay and Peto, 1995: a hierarchical Dirichlet language model). The
/// last two are taken of the table first, and then of the text with the table's `p(x | a, b)` in place of `p(x)`.
#[derive(Clone, Debug)]
pub struct NgramCounts {
    text: Vec<Token>,
    counts: Counts,
    different: usize,
    table: Option<Arc<NgramTable>>,
}

/// The counts of what follows two tokens.
#[derive(Clone, Copy, Debug)]
pub struct Following<'a> {
    all: &'a NgramCounts,
    before: [Token; 2],
    /// How many tokens followed the last one, and both: in the table, and in the text.
    table: [f64; 2],
    text: [f64; 2],
}

impl Default for NgramCounts {
    fn default() -> Self {
        let counts = HashMap::with_capacity_and_hasher(FIRST_ENTRIES, BuildHasherDefault::default());
        Self { text: Vec::with_capacity(FIRST_ENTRIES / 4), counts, different: 0, table: None }
    }
}

impl NgramCounts {
    /// No text.
    pub fn new() -> Self {
        Self::default()
    }

    /// No text yet, after those of a table.
    pub fn starting_at(table: Option<Arc<NgramTable>>) -> Self {
        Self { table, ..Self::default() }
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

    /// Forgets the text; the table stays.
    pub fn clear(&mut self) {
        self.text.clear();
        self.counts.clear();
        self.different = 0;
    }

    /// The counts of the tokens that follow two.
    pub fn after(&self, before: [Token; 2]) -> Following<'_> {
        // The last run of the text is followed by nothing yet.
        let open = |run: &[Token]| f64::from(u8::from(self.text.ends_with(run)));
        let contexts = [&before[1..], &before];
        let text = contexts.map(|context| self.count(context) - open(context));
        let in_table = |context| self.table.as_ref().map_or(0.0, |table| table.followed(context));
        Following { all: self, before, table: contexts.map(in_table), text }
    }

    fn count(&self, run: &[Token]) -> f64 {
        f64::from(self.counts.get(&key(run)).copied().unwrap_or(0))
    }

    /// `p(x)`.
    fn alone(&self, token: Token) -> f64 {
        let (mut seen, mut tokens, mut different) =
            (self.count(&[token]), self.text.len() as f64, self.different as f64);
        if let Some(table) = &self.table {
            seen += table.count(&[token]);
            tokens += table.tokens();
            different = different.max(table.different());
        }
        (seen + UNSEEN) / (tokens + UNSEEN * (different + 1.0))
    }
}

impl Following<'_> {
    /// `ln(p(x | a, b) / p(x))`: how much the two tokens before speak for a token; 0 if the last one is new.
    pub fn evidence(&self, token: Token) -> f64 {
        if self.table[0] <= 0.0 && self.text[0] <= 0.0 {
            return 0.0;
        }
        let alone = self.all.alone(token);
        let [a, b] = self.before;
        let runs = [&[b, token][..], &[a, b, token]];
        let refined = |mut estimate: f64, followed: [f64; 2], count: &dyn Fn(&[Token]) -> f64| {
            for (run, followed) in runs.into_iter().zip(followed).filter(|(_, followed)| *followed > 0.0) {
                estimate = (count(run) + PRIOR * estimate) / (followed + PRIOR);
            }
            estimate
        };
        let in_table = |run: &[Token]| self.all.table.as_ref().map_or(0.0, |table| table.count(run));
        let table = refined(alone, self.table, &in_table);
        let text = refined(table, self.text, &|run| self.all.count(run));
        (text / alone).ln()
    }
}

#[cfg(test)]
mod tests;
