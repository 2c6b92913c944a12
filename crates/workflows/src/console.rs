//! Messages, results and progress of running jobs. The command line renders them; this crate prints nothing.

use crate::failure::Failure;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Something that a job reports.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A message that a person wants to read.
    Message(&'a str),
    /// A table or a line of results, for people. Documents for programs are returned by the job instead.
    Result(&'a str),
}

/// How a progress bar looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarStyle {
    /// A spinner, where the end is not known.
    Spinner,
    /// Bytes of a transfer.
    Transfer,
    /// A number of things, and the time left.
    Count,
    /// A number of conversations, what the job says of them, and the time left.
    Conversations,
    /// Training steps and what they measured.
    Steps,
}

/// A progress bar. It ends when it is dropped.
pub trait ProgressBar: Send + Sync {
    /// Moves it to a position.
    fn set_position(&self, position: u64);
    /// Moves it forward.
    fn advance(&self, by: u64);
    /// Changes what it says.
    fn set_message(&self, message: String);
    /// Takes it away.
    fn clear(&self);
}

/// Renders what jobs report.
pub trait Observer: Send + Sync {
    /// Receives an event.
    fn event(&self, event: Event<'_>);

    /// Begins a progress bar; `done` of `total` was done before. `None` where bars are not shown.
    fn bar(&self, style: BarStyle, label: &str, done: u64, total: u64) -> Option<Box<dyn ProgressBar>>;

    /// A flag that is set when the user asks jobs to save and stop, for a job that holds it as long as it can do so.
    fn stop_flag(&self) -> Arc<AtomicBool>;

    /// Reports a failure and ends the program: called where a library that cannot be interrupted holds other threads.
    fn abort(&self, failure: &Failure);
}

/// Where a job reports; cheap to clone.
#[derive(Clone, Default)]
pub struct Console {
    observer: Option<Arc<dyn Observer>>,
}

impl Console {
    /// Reports to an observer.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer) }
    }

    /// Reports to nobody.
    pub fn silent() -> Self {
        Self::default()
    }

    fn event(&self, event: Event<'_>) {
        self.observer.iter().for_each(|observer| observer.event(event));
    }

    /// Reports a message.
    pub fn say(&self, text: impl Display) {
        self.event(Event::Message(&text.to_string()));
    }

    /// Reports messages, if there are any.
    pub fn say_all<T: Display>(&self, lines: impl IntoIterator<Item = T>) {
        lines.into_iter().for_each(|line| self.say(line));
    }

    /// Reports results for people.
    pub fn result(&self, text: impl Display) {
        self.event(Event::Result(&text.to_string()));
    }

    /// Begins a progress bar.
    pub fn bar(&self, style: BarStyle, label: &str, total: u64) -> Bar {
        self.bar_from(style, label, 0, total)
    }

    /// Begins a progress bar of a job of which a part was done before.
    pub fn bar_from(&self, style: BarStyle, label: &str, done: u64, total: u64) -> Bar {
        Bar { shown: self.observer.as_ref().and_then(|observer| observer.bar(style, label, done, total)) }
    }

    /// A flag that is set when the user asks jobs to save and stop. While no job holds one, the program ends instead.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.observer.as_ref().map_or_else(Arc::default, |observer| observer.stop_flag())
    }

    /// Reports a failure and ends the program, if somebody observes it.
    pub fn abort(&self, failure: &Failure) {
        self.observer.iter().for_each(|observer| observer.abort(failure));
    }
}

/// A progress bar that may not be shown.
pub struct Bar {
    shown: Option<Box<dyn ProgressBar>>,
}

impl Bar {
    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Moves it to a position.
    pub fn set_position(&self, position: u64) {
        self.shown.iter().for_each(|bar| bar.set_position(position));
    }

    /// Moves it forward.
    pub fn inc(&self, by: u64) {
        self.shown.iter().for_each(|bar| bar.advance(by));
    }

    /// Changes what it says.
    pub fn set_message(&self, message: impl Into<String>) {
        if let Some(bar) = &self.shown {
            bar.set_message(message.into());
        }
    }
}

impl Bar {
    /// Takes it away.
    pub fn finish(&self) {
        self.shown.iter().for_each(|bar| bar.clear());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
