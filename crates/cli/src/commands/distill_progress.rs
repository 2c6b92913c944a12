//! Progress of distillation, and what its first part says of the whole.

use crate::fitting::duration;
use crate::printer::count;
use crate::settings::Settings;
use gorgon_data::distill::Event;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::time::Instant;

/// What there is to answer.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Conversations in all.
    pub conversations: usize,
    /// Those that were answered before.
    pub before: usize,
    /// Conversations at a time.
    pub slots: usize,
}

/// Tokens and seconds of all answers to come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub tokens: f64,
    pub seconds: f64,
}

impl Work {
    /// What all answers will take, when those of so many pilots have so many tokens, and so many conversations took that. Those in flight
    /// are half done, on average.
    fn extrapolated(&self, (pilots, of_pilots): (usize, usize), done: usize, so_far: Totals) -> Totals {
        let all = (self.conversations - self.before) as f64;
        let tokens = of_pilots as f64 * all / pilots.max(1) as f64;
        let in_flight = self.slots.min(self.conversations.saturating_sub(self.before + done)) as f64 / 2.0;
        // Pilots are as long as any; others that are done, or in flight, are the longest.
        let made = so_far.tokens * (1.0 + in_flight / done.max(1) as f64);
        Totals { tokens, seconds: so_far.seconds * tokens / made.max(1.0) }
    }
}

/// Progress of answering.
pub struct Meter<'a> {
    bar: ProgressBar,
    settings: &'a Settings,
    started: Instant,
    tokens: usize,
    conversations: usize,
    /// Conversations that are answered first, as a sample of all.
    pilots: BTreeSet<u64>,
    /// Those of them that are done, and the tokens of all of them.
    sample: (usize, usize),
    work: Work,
    expected: Option<Totals>,
}

impl<'a> Meter<'a> {
    pub fn new(work: Work, pilots: BTreeSet<u64>, settings: &'a Settings) -> Self {
        let Work { conversations: total, before, .. } = work;
        let bar = if settings.progress { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} conversations · {msg} · {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(before as u64);
        bar.reset_eta();
        let started = Instant::now();
        Self { bar, settings, started, tokens: 0, conversations: 0, pilots, sample: (0, 0), work, expected: None }
    }

    pub fn count(&mut self, event: Event) {
        match event {
            Event::Answer { row, tokens } => {
                self.tokens += tokens;
                self.sample.1 += if self.pilots.contains(&row) { tokens } else { 0 };
            }
            Event::Conversation { row } => {
                self.conversations += 1;
                self.sample.0 += usize::from(self.pilots.contains(&row));
                self.expect();
            }
        }
        let so_far = self.so_far();
        let speed = so_far.tokens / so_far.seconds.max(1e-9);
        let Work { conversations: total, before, .. } = self.work;
        self.bar.set_position((before + self.conversations) as u64);
        self.bar.set_message(format!("{speed:.0} tokens/s"));
        // A line every tenth where there is no bar.
        let step = (total / 10).max(1);
        let ended = matches!(event, Event::Conversation { .. });
        if !self.settings.progress && ended && self.conversations.is_multiple_of(step) {
            let done = before + self.conversations;
            self.settings.talk.say(format!("{done}/{total} conversations · {speed:.0} tokens/s"));
        }
    }

    fn so_far(&self) -> Totals {
        Totals { tokens: self.tokens as f64, seconds: self.started.elapsed().as_secs_f64() }
    }

    /// Tells what the job will take, once.
    fn expect(&mut self) {
        let done = self.sample.0;
        let last = self.work.before + self.conversations >= self.work.conversations;
        if self.expected.is_some() || done < self.pilots.len() || last {
            return;
        }
        let all = self.work.extrapolated(self.sample, self.conversations, self.so_far());
        let (tokens, time) = (count(all.tokens as u128), duration(all.seconds));
        let line = format!("by a sample of {done} conversations: {tokens} new tokens and {time} for all of them");
        self.bar.suspend(|| self.settings.talk.say(line));
        self.expected = Some(all);
    }

    /// What the sample made one expect, if there was one, and what there was.
    pub fn finish(&self) -> (Option<Totals>, Totals) {
        self.bar.finish_and_clear();
        (self.expected, self.so_far())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_of_all() {
        let work = Work { conversations: 120, before: 20, slots: 4 };
        // Ten pilots and two others are done, four in flight.
        let so_far = Totals { tokens: 60.0, seconds: 7.0 };
        assert_eq!(work.extrapolated((10, 50), 12, so_far), Totals { tokens: 500.0, seconds: 50.0 });
        assert_eq!(work.extrapolated((0, 0), 0, Totals::default()).seconds, 0.0);
    }
}
