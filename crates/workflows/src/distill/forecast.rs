//! Estimates all answers from the conversations that are answered first.

use gorgon_data::distill::Prompt;
use std::collections::BTreeMap;

/// Bytes that a token of an answer takes in the journal that is kept in memory: its id, and the spare
/// capacity of lists.
const KEPT_PER_TOKEN: f64 = 6.0;
/// Bytes of an answer there, tokens apart.
const KEPT_PER_ANSWER: f64 = 160.0;

/// A conversation as it is known before it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub row: u64,
    /// Of its text.
    pub bytes: usize,
    /// The user's turns.
    pub turns: usize,
}

impl From<&Prompt> for Asked {
    fn from(prompt: &Prompt) -> Self {
        Self { row: prompt.row, bytes: prompt.bytes(), turns: prompt.users.len() }
    }
}

/// A conversation that was answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    /// Where it was.
    pub slot: usize,
    /// Tokens of all of it.
    pub tokens: usize,
    /// Those of them that are answers'.
    pub answers: usize,
}

/// The memory that tokens and answers to come will add.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth {
    /// Bytes.
    pub memory: f64,
    /// The growth of what the slots hold at most, in tokens.
    pub held: f64,
}

/// Conversations that are left, in the order in which they are begun.
pub struct Left<'a> {
    pub asked: &'a [Asked],
    pub done: &'a BTreeMap<u64, Read>,
    pub slots: usize,
    /// Tokens of a conversation at most.
    pub capacity: usize,
    /// Bytes of a token in a slot.
    pub per_token: u64,
}

impl Left<'_> {
    /// How memory grows from now on. A slot holds the longest conversation that it had, since memory that was once used
    /// is kept.
    ///
    /// A conversation is as long as its text and its turns say, give or take what one of the sample was longer or
    /// shorter than that: the differences are applied to those to come, in turn.
    pub fn growth(&self) -> Growth {
        let known: Vec<(&Asked, &Read)> =
            self.asked.iter().filter_map(|asked| Some((asked, self.done.get(&asked.row)?))).collect();
        let sum = |of: &dyn Fn(&(&Asked, &Read)) -> usize| known.iter().map(of).sum::<usize>() as f64;
        let per_byte =
            sum(&|(_, read)| read.tokens.saturating_sub(read.answers)) / sum(&|(asked, _)| asked.bytes).max(1.0);
        let per_turn = sum(&|(_, read)| read.answers) / sum(&|(asked, _)| asked.turns).max(1.0);
        let length = |asked: &Asked| per_byte * asked.bytes as f64 + per_turn * asked.turns as f64;
        let more: Vec<f64> = known.iter().map(|(asked, read)| read.tokens as f64 - length(asked)).collect();
        let (mut now, slots) = (vec![0.0f64; self.slots.max(1)], self.slots.max(1));
        for (_, read) in &known {
            let held = &mut now[read.slot % slots];
            *held = held.max(read.tokens as f64);
        }
        let mut then = now.clone();
        let to_come = self.asked.iter().filter(|asked| !self.done.contains_key(&asked.row));
        let (mut tokens, mut answers) = (0.0, 0.0);
        for (i, asked) in to_come.enumerate() {
            let whole =
                (length(asked) + more.get(i % more.len().max(1)).unwrap_or(&0.0)).clamp(0.0, self.capacity as f64);
            then[i % slots] = then[i % slots].max(whole);
            // The first ones are under way.
            if i < slots {
                now[i] = now[i].max(length(asked).min(self.capacity as f64) / 2.0);
            }
            (tokens, answers) = (tokens + per_turn * asked.turns as f64, answers + asked.turns as f64);
        }
        let held: f64 = then.iter().zip(&now).map(|(then, now)| (then - now).max(0.0)).sum();
        Growth { memory: held * self.per_token as f64 + tokens * KEPT_PER_TOKEN + answers * KEPT_PER_ANSWER, held }
    }
}

/// Bytes on disk when the sample is answered.
#[derive(Clone, Copy, Debug)]
pub struct OnDisk {
    /// The sample's lines of the journal.
    pub journal: u64,
    /// All that is neither journal nor shards.
    pub others: u64,
    /// The shards of all rows, without their tokens.
    pub bare: u64,
    /// The sample's tokens.
    pub tokens: Tokens,
}

/// Shard bytes of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// Rows of the sample.
    pub rows: usize,
    /// Bytes of their tokens in one shard.
    pub all: f64,
    /// Bytes of a quarter of them in one shard, on the average over its quarters.
    pub quarter: f64,
}

impl Tokens {
    /// Bytes of the tokens of so many rows, at most `per_shard` in each shard. A shard lists each token that occurs
    /// once, and has more to refer back to the longer it is. So its tokens grow less than its rows do: by the power of
    /// them that the sample and its quarters tell.
    pub fn of(&self, rows: usize, per_shard: usize) -> f64 {
        let power = (self.all / self.quarter).ln() / 4f64.ln();
        let power = if power.is_finite() { power.clamp(0.5, 1.0) } else { 1.0 };
        let part = |rows: usize| self.all * (rows as f64 / self.rows.max(1) as f64).powf(power);
        let per_shard = per_shard.max(1);
        (rows / per_shard) as f64 * part(per_shard) + part(rows % per_shard)
    }
}

#[cfg(test)]
mod tests;
