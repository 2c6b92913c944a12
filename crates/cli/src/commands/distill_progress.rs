//! Progress of distillation, and what its first part says of the whole.

use crate::fitting::duration;
use crate::printer::count;
use crate::settings::Settings;
use gorgon_data::distill::Event;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

/// How long answers get is known when they are there. What a job takes is told from the first one in so many of them.
const FIRST_SHARE: usize = 10;

/// What there is to answer.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Conversations in all.
    pub conversations: usize,
    /// Those that were answered before.
    pub before: usize,
    /// Answers to come.
    pub answers: usize,
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
    /// What all answers will take when so many took that. The conversations in flight are half an answer ahead, on average.
    fn extrapolated(&self, answered: usize, so_far: Totals) -> Totals {
        let in_flight = self.slots.min(self.answers.saturating_sub(answered)) as f64;
        let all = self.answers as f64;
        Totals {
            tokens: so_far.tokens * all / answered.max(1) as f64,
            seconds: so_far.seconds * all / (answered as f64 + in_flight / 2.0).max(1.0),
        }
    }
}

/// Progress of answering.
pub struct Meter<'a> {
    bar: ProgressBar,
    settings: &'a Settings,
    started: Instant,
    tokens: usize,
    answers: usize,
    conversations: usize,
    work: Work,
    expected: Option<Totals>,
}

impl<'a> Meter<'a> {
    pub fn new(work: Work, settings: &'a Settings) -> Self {
        let Work { conversations: total, before, .. } = work;
        let bar = if settings.progress { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} conversations · {msg} · {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(before as u64);
        bar.reset_eta();
        let started = Instant::now();
        Self { bar, settings, started, tokens: 0, answers: 0, conversations: 0, work, expected: None }
    }

    pub fn count(&mut self, event: Event) {
        match event {
            Event::Answer(tokens) => {
                self.tokens += tokens;
                self.answers += 1;
                self.expect();
            }
            Event::Conversation => self.conversations += 1,
        }
        let so_far = self.so_far();
        let speed = so_far.tokens / so_far.seconds.max(1e-9);
        let Work { conversations: total, before, .. } = self.work;
        self.bar.set_position((before + self.conversations) as u64);
        self.bar.set_message(format!("{speed:.0} tokens/s"));
        // A line every tenth where there is no bar.
        let step = (total / 10).max(1);
        if !self.settings.progress && event == Event::Conversation && self.conversations.is_multiple_of(step) {
            let done = before + self.conversations;
            self.settings.talk.say(format!("{done}/{total} conversations · {speed:.0} tokens/s"));
        }
    }

    fn so_far(&self) -> Totals {
        Totals { tokens: self.tokens as f64, seconds: self.started.elapsed().as_secs_f64() }
    }

    /// Tells what the job will take, once.
    fn expect(&mut self) {
        let enough = (self.work.answers / FIRST_SHARE).max(self.work.slots);
        if self.expected.is_some() || self.answers < enough || self.answers >= self.work.answers {
            return;
        }
        let all = self.work.extrapolated(self.answers, self.so_far());
        let (tokens, time) = (count(all.tokens as u128), duration(all.seconds));
        let line = format!("by the first {} answers: {tokens} tokens and {time} for all of them", self.answers);
        self.bar.suspend(|| self.settings.talk.say(line));
        self.expected = Some(all);
    }

    /// What the first answers made one expect, if there were enough of them, and what there was.
    pub fn finish(&self) -> (Option<Totals>, Totals) {
        self.bar.finish_and_clear();
        (self.expected, self.so_far())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answers_tell_of_all() {
        let work = Work { conversations: 100, before: 0, answers: 100, slots: 4 };
        let all = work.extrapolated(10, Totals { tokens: 50.0, seconds: 6.0 });
        assert_eq!(all, Totals { tokens: 500.0, seconds: 50.0 });
        assert_eq!(work.extrapolated(100, all), all);
        assert!(work.extrapolated(0, Totals::default()).seconds == 0.0);
    }
}
