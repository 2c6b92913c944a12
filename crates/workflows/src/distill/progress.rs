//! Progress of distillation, and a forecast of the whole from its first part.

use super::forecast::{Asked, Left, OnDisk, Read};
use crate::console::{Bar, BarStyle, Console};
use crate::estimate::Watch;
use crate::settings::Settings;
use crate::units::{bytes, count, duration, of};
use gorgon_data::distill::Event;
use gorgon_data::shard;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Prompts to answer.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Conversations in all.
    pub conversations: usize,
    /// Those that were answered before.
    pub before: usize,
    /// Conversations at a time.
    pub slots: usize,
}

/// Tokens and seconds of all answers to come, with memory and disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub tokens: f64,
    pub seconds: f64,
    /// Bytes in memory beyond what was there before the model was loaded, at most; where that is known.
    pub memory: Option<f64>,
    /// Bytes of the output folder.
    pub disk: Option<f64>,
}

/// Figures that the memory of answering is forecast from.
#[derive(Clone, Copy)]
pub struct Memory {
    pub watch: Watch,
    /// Tokens of a conversation at most.
    pub capacity: usize,
    /// Bytes of a token in a cache.
    pub per_token: u64,
}

/// Readings taken when the sample is answered.
pub struct Readings<'a> {
    /// Conversations in the order in which they are begun.
    pub asked: Vec<Asked>,
    pub memory: Option<Memory>,
    /// Bytes on disk of the named rows, and of everything beside them, where there is anything.
    pub disk: &'a dyn Fn(&BTreeSet<u64>) -> Option<OnDisk>,
}

impl Work {
    /// Totals of all answers, extrapolated from the tokens of the sample and the totals of the finished conversations.
    /// Those under way are half done, on average.
    fn extrapolated(&self, (sampled, of_sampled): (usize, usize), done: usize, so_far: Totals) -> Totals {
        let all = (self.conversations - self.before) as f64;
        let tokens = of_sampled as f64 * all / sampled.max(1) as f64;
        let uncommitted = self.slots.min(self.conversations.saturating_sub(self.before + done)) as f64 / 2.0;
        // Those of the sample are as long as any; others that are done, or under way, are the longest.
        let made = so_far.tokens * (1.0 + uncommitted / done.max(1) as f64);
        Totals { tokens, seconds: so_far.seconds * tokens / made.max(1.0), ..Totals::default() }
    }
}

/// Progress of answering.
pub struct Meter<'a> {
    bar: Bar,
    console: &'a Console,
    started: Instant,
    tokens: usize,
    conversations: usize,
    /// Conversations that are answered first, as a sample of all.
    sample: BTreeSet<u64>,
    /// Those of them that are done, and the tokens of all of them.
    sampled: (usize, usize),
    work: Work,
    readings: Readings<'a>,
    /// Conversations that are done.
    read: BTreeMap<u64, Read>,
    expected: Option<Totals>,
}

impl<'a> Meter<'a> {
    pub fn new(work: Work, sample: BTreeSet<u64>, readings: Readings<'a>, settings: &'a Settings) -> Self {
        let Work { conversations: total, before, .. } = work;
        let bar = settings.console.bar_from(BarStyle::Conversations, "", before as u64, total as u64);
        let started = Instant::now();
        let (read, expected) = (BTreeMap::new(), None);
        Self {
            bar,
            console: &settings.console,
            started,
            tokens: 0,
            conversations: 0,
            sample,
            sampled: (0, 0),
            work,
            readings,
            read,
            expected,
        }
    }

    pub fn count(&mut self, event: Event) {
        match &event {
            Event::Answer { row, tokens } => {
                self.tokens += tokens;
                self.sampled.1 += if self.sample.contains(row) { *tokens } else { 0 };
                self.read.entry(*row).or_default().answers += tokens;
            }
            Event::Conversation { row, slot } => {
                self.conversations += 1;
                let read = self.read.entry(*row).or_default();
                (read.slot, read.tokens) = slot.unwrap_or_default();
                self.sampled.0 += usize::from(self.sample.contains(row));
                self.expect();
            }
            Event::ServerLost { reason } => self.console.say(format!("warning: server given up: {reason}")),
        }
        let so_far = self.so_far();
        let speed = so_far.tokens / so_far.seconds.max(1e-9);
        let Work { conversations: total, before, .. } = self.work;
        self.bar.set_position((before + self.conversations) as u64);
        self.bar.set_message(format!("{speed:.0} tokens/s"));
        // A line every tenth where there is no bar.
        let step = (total / 10).max(1);
        let ended = matches!(event, Event::Conversation { .. });
        if !self.bar.is_shown() && ended && self.conversations.is_multiple_of(step) {
            let done = before + self.conversations;
            self.console.say(format!("{done}/{total} conversations · {speed:.0} tokens/s"));
        }
    }

    fn so_far(&self) -> Totals {
        Totals { tokens: self.tokens as f64, seconds: self.started.elapsed().as_secs_f64(), ..Totals::default() }
    }

    /// Forecasts what the job will take, once.
    fn expect(&mut self) {
        let done = self.sampled.0;
        let last = self.work.before + self.conversations >= self.work.conversations;
        if self.expected.is_some() || self.sample.is_empty() || done < self.sample.len() || last {
            return;
        }
        let mut all = self.work.extrapolated(self.sampled, self.conversations, self.so_far());
        (all.memory, all.disk) = (self.memory(), self.disk());
        let (tokens, time) = (count(all.tokens as u128), duration(all.seconds));
        let mut line =
            format!("by a sample of {}: {tokens} new tokens and {time} for all of them", of(done, "conversation"));
        for (name, size) in [("memory", all.memory), ("disk", all.disk)] {
            line += &size.map_or_else(String::new, |size| format!("; {name} {}", bytes(size as u64)));
        }
        self.console.say(line);
        self.expected = Some(all);
    }

    /// Memory used so far, plus the expected growth through later conversations.
    fn memory(&self) -> Option<f64> {
        let Memory { watch, capacity, per_token } = self.readings.memory?;
        let done = &self.read.iter().filter(|(_, read)| read.tokens > 0).map(|(row, read)| (*row, *read)).collect();
        let left = Left { asked: &self.readings.asked, done, slots: self.work.slots, capacity, per_token };
        Some(watch.peak()? as f64 + left.growth().memory)
    }

    /// Journal and shards grow with their rows.
    fn disk(&self) -> Option<f64> {
        let OnDisk { journal, others, bare, tokens } = (self.readings.disk)(&self.sample)?;
        let all = self.work.conversations;
        let journal = journal as f64 * all as f64 / self.sample.len().max(1) as f64;
        Some((others + bare) as f64 + journal + tokens.of(all, shard::ROWS_PER_SHARD))
    }

    /// The forecast from the sample, if there was one, and what was measured.
    pub fn finish(&self) -> (Option<Totals>, Totals) {
        self.bar.finish();
        (self.expected, self.so_far())
    }
}

#[cfg(test)]
mod tests;
