//! Counts of short runs of tokens in many texts.

use super::ngram_hash::{Counts, key};
use crate::Token;
use std::sync::Arc;

/// Runs that a table holds, at most: some 24 MB in a file.
const MOST_RUNS: usize = 1 << 21;
/// Runs while texts are counted, at most.
const MOST_COUNTED: usize = 2 * MOST_RUNS;

/// Counts of runs of one to three tokens in the answers of a data set, from which [`NgramCounts`](super::NgramCounts)
/// begin. A run is counted by its last token, which is an answer's; the tokens before it may be a prompt's.
///
/// Where there are too many runs, the rarest are left out, also while counting goes on (lossy counting, Manku and
/// Motwani, 2002).
#[derive(Clone, Debug, Default)]
pub struct NgramTable {
    counts: Counts,
    /// By context of one or two tokens: how many tokens followed it.
    followed: Counts,
    tokens: u64,
    different: u64,
    /// Runs that came as often, or more rarely, may be missing.
    least: u32,
}

/// A table as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NgramEntries {
    /// Hashes and counts of runs, ordered by hash.
    pub counts: Vec<(u64, u32)>,
    /// Hashes of contexts, and how many tokens followed them.
    pub followed: Vec<(u64, u32)>,
    /// Number of tokens that were counted.
    pub tokens: u64,
    /// How many of them are different.
    pub different: u64,
}

impl NgramTable {
    /// Counts the marked tokens of a text, each with the two before it.
    pub fn add(&mut self, text: &[Token], marked: &[bool]) {
        for (last, _) in text.iter().zip(marked).enumerate().filter(|(_, (_, marked))| **marked) {
            self.tokens += 1;
            for length in 1..=3.min(last + 1) {
                let run = &text[last + 1 - length..=last];
                let count = self.counts.entry(key(run)).or_insert(0);
                *count = count.saturating_add(1);
                self.different += u64::from(length == 1 && *count == 1);
                if length > 1 {
                    let followed = self.followed.entry(key(&run[..length - 1])).or_insert(0);
                    *followed = followed.saturating_add(1);
                }
            }
        }
        self.limit(MOST_COUNTED);
    }

    /// Bytes of a table of so many tokens in a file, at most: of each token three runs and two contexts.
    pub fn most_bytes(tokens: usize) -> u64 {
        12 * tokens.saturating_mul(5).min(MOST_RUNS) as u64
    }

    /// The table, with as many runs as it may hold.
    pub fn finish(mut self) -> Arc<Self> {
        self.limit(MOST_RUNS);
        Arc::new(self)
    }

    fn limit(&mut self, most: usize) {
        while self.counts.len() + self.followed.len() > most {
            self.least += 1;
            self.counts.retain(|_, count| *count > self.least);
            self.followed.retain(|_, count| *count > self.least);
        }
    }

    /// Its numbers.
    pub fn entries(&self) -> NgramEntries {
        let ordered = |counts: &Counts| {
            let mut entries: Vec<(u64, u32)> = counts.iter().map(|(&run, &count)| (run, count)).collect();
            entries.sort_unstable();
            entries
        };
        let (counts, followed) = (ordered(&self.counts), ordered(&self.followed));
        NgramEntries { counts, followed, tokens: self.tokens, different: self.different }
    }

    /// A table of numbers from outside. Wrong ones cost drafts and nothing else.
    pub fn from_entries(entries: &NgramEntries) -> Arc<Self> {
        let counts = entries.counts.iter().copied().collect();
        let followed = entries.followed.iter().copied().collect();
        Arc::new(Self { counts, followed, tokens: entries.tokens, different: entries.different, least: 0 })
    }

    /// How often a run was counted.
    pub(super) fn count(&self, run: &[Token]) -> f64 {
        f64::from(self.counts.get(&key(run)).copied().unwrap_or(0))
    }

    /// How many tokens followed a context.
    pub(super) fn followed(&self, context: &[Token]) -> f64 {
        f64::from(self.followed.get(&key(context)).copied().unwrap_or(0))
    }

    pub(super) fn tokens(&self) -> f64 {
        self.tokens as f64
    }

    pub(super) fn different(&self) -> f64 {
        self.different as f64
    }
}

#[cfg(test)]
mod tests;
