//! Matches in a store.

use super::Store;
use gorgon_core::Token;
use std::cmp::Ordering;

/// Spans of at most so many occurrences are read in full.
const READ: usize = 256;
/// Places at which longer spans are read, at equal distances. A token with this share of them or more is found.
const PROBES: usize = 64;

/// Occurrences of a token sequence: an interval of the suffix array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Tokens of the sequence.
    pub length: usize,
    first: usize,
    end: usize,
}

impl Match {
    /// Occurrences.
    pub fn count(&self) -> usize {
        self.end - self.first
    }
}

impl Store {
    /// The longest suffix of a text that occurs in a document, and its occurrences. Of length 0, all tokens are
    /// occurrences.
    pub fn longest(&self, text: &[Token]) -> Match {
        let (mut first, mut end) = (0, self.entries());
        // Tokens that the text shares with the last entry before the interval, and with the first one behind it. All
        // entries between share as many as both.
        let (mut below, mut above) = (0, 0);
        while first < end {
            let middle = first + (end - first) / 2;
            let (shared, order) = self.compare_backwards(middle, text, below.min(above));
            match order {
                Ordering::Less => (first, below) = (middle + 1, shared),
                Ordering::Equal | Ordering::Greater => (end, above) = (middle, shared),
            }
        }
        self.occurrences(&text[text.len() - below.max(above).min(text.len())..])
    }

    /// The occurrences of a token sequence in documents.
    pub fn occurrences(&self, sequence: &[Token]) -> Match {
        let (mut first, mut end) = (0, self.tokens());
        let length = sequence.len();
        if length == 0 {
            return Match { length, first, end };
        }
        let (mut below, mut above) = (0, 0);
        while first < end {
            let middle = first + (end - first) / 2;
            let (shared, order) = self.compare(middle, sequence, below.min(above));
            match order {
                Ordering::Less => (first, below) = (middle + 1, shared),
                Ordering::Equal | Ordering::Greater => (end, above) = (middle, shared),
            }
        }
        let matches = |rank: usize| self.compare(rank, sequence, 0).1 == Ordering::Equal;
        Match { length, first, end: gallop(first, self.tokens(), matches) }
    }

    /// The occurrences of a match that a token follows; `None` if there are none.
    pub fn extended(&self, found: Match, token: Token) -> Option<Match> {
        let follower = |rank: usize| self.follower(found, rank);
        let ranks = found.end - found.first;
        let before = partition(ranks, |i| follower(found.first + i).is_some_and(|known| known < token));
        let first = found.first + before;
        let end = gallop(first, found.end, |rank| follower(rank) == Some(token));
        (end > first).then_some(Match { length: found.length + 1, first, end })
    }

    /// The tokens that follow a match within documents, in their order, each with its occurrences.
    pub fn followers(&self, found: Match) -> impl Iterator<Item = (Token, Match)> + '_ {
        let mut first = found.first;
        std::iter::from_fn(move || {
            // Boundaries come last.
            let token = if first < found.end { self.follower(found, first)? } else { return None };
            let run = self.run(found, first, token);
            first = run.end;
            Some((token, run))
        })
    }

    /// As [`Self::followers`], but of a match with many occurrences only those are sure to be among them that follow one
    /// in 64.
    pub(crate) fn frequent_followers(&self, found: Match, visit: &mut dyn FnMut(Token, Match)) {
        if found.count() <= READ {
            return self.followers(found).for_each(|(token, run)| visit(token, run));
        }
        let mut next = found.first;
        for probe in 0..PROBES {
            let rank = found.first + probe * (found.count() - 1) / (PROBES - 1);
            if rank < next {
                continue;
            }
            let Some(token) = self.follower(found, rank) else { break };
            let before = partition(rank - next, |i| self.follower(found, next + i) != Some(token));
            let run = self.run(found, next + before, token);
            next = run.end;
            visit(token, run);
        }
    }

    /// The occurrences from a rank on that a token follows, the first of which it is known to follow.
    fn run(&self, found: Match, first: usize, token: Token) -> Match {
        let end = gallop(first + 1, found.end, |rank| self.follower(found, rank) == Some(token));
        Match { length: found.length + 1, first, end }
    }

    #[inline]
    fn follower(&self, found: Match, rank: usize) -> Option<Token> {
        self.token(self.suffix(rank)? + found.length)
    }

    /// Compares the text behind a rank's position with a sequence, with which it is known to share `shared` tokens: all
    /// that are shared, and the order of the two. A text that begins with the sequence is equal to it.
    fn compare(&self, rank: usize, sequence: &[Token], shared: usize) -> (usize, Ordering) {
        let Some(position) = self.suffix(rank) else { return (shared, Ordering::Greater) };
        let mut at = shared;
        while let Some(&wanted) = sequence.get(at) {
            match self.token(position + at) {
                Some(token) if token == wanted => at += 1,
                Some(token) if token < wanted => return (at, Ordering::Less),
                // Boundaries are greater than tokens.
                _ => return (at, Ordering::Greater),
            }
        }
        (at, Ordering::Equal)
    }

    /// As [`Self::compare`] for the text that ends at the position of a rank by what precedes, both read backwards.
    fn compare_backwards(&self, rank: usize, text: &[Token], shared: usize) -> (usize, Ordering) {
        let Some(position) = self.prefix(rank) else { return (shared, Ordering::Greater) };
        let mut at = shared;
        while let Some(&wanted) = text.len().checked_sub(at + 1).and_then(|back| text.get(back)) {
            match position.checked_sub(at).and_then(|back| self.token(back)) {
                Some(token) if token == wanted => at += 1,
                Some(token) if token < wanted => return (at, Ordering::Less),
                _ => return (at, Ordering::Greater),
            }
        }
        (at, Ordering::Equal)
    }
}

/// How many of the numbers from 0 satisfy a condition that the first ones satisfy and no others.
fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut first, mut end) = (0, count);
    while first < end {
        let middle = first + (end - first) / 2;
        if holds(middle) { first = middle + 1 } else { end = middle }
    }
    first
}

/// The first number from `first` on, and at most `end`, that fails a condition. Found in steps that double, since runs
/// are mostly short.
fn gallop(first: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut known, mut step) = (first, 1);
    while known + step <= end && holds(known + step - 1) {
        known += step;
        step *= 2;
    }
    known + partition((end - known).min(step - 1), |i| holds(known + i))
}
