//! Progress of distillation.

use crate::settings::Settings;
use gorgon_data::distill::Event;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

/// Progress of answering.
pub struct Meter<'a> {
    bar: ProgressBar,
    settings: &'a Settings,
    started: Instant,
    tokens: usize,
    answers: usize,
    conversations: usize,
    total: usize,
    before: usize,
}

impl<'a> Meter<'a> {
    pub fn new(total: usize, before: usize, settings: &'a Settings) -> Self {
        let bar = if settings.progress { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} conversations · {msg} · {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(before as u64);
        bar.reset_eta();
        let started = Instant::now();
        Self { bar, settings, started, tokens: 0, answers: 0, conversations: 0, total, before }
    }

    pub fn count(&mut self, event: Event) {
        match event {
            Event::Answer(tokens) => {
                self.tokens += tokens;
                self.answers += 1;
            }
            Event::Conversation => self.conversations += 1,
        }
        let speed = self.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        self.bar.set_position((self.before + self.conversations) as u64);
        self.bar.set_message(format!("{speed:.0} tokens/s"));
        // A line every tenth where there is no bar.
        let step = (self.total / 10).max(1);
        if !self.settings.progress && event == Event::Conversation && self.conversations.is_multiple_of(step) {
            let done = self.before + self.conversations;
            self.settings.talk.say(format!("{done}/{} conversations · {speed:.0} tokens/s", self.total));
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
