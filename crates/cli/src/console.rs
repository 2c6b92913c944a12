//! Renders what jobs report: messages, progress bars, and results for people.

use crate::interrupt;
use crate::printer;
use crate::progress;
use gorgon_runs::visible;
use gorgon_workflows::console::{BarStyle, Event, Observer, ProgressBar};
use gorgon_workflows::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The part of the reports that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Nothing but results and errors.
    pub quiet: bool,
    /// Results as one JSON document, which the command prints itself.
    pub json: bool,
    /// Whether progress bars are wanted and can be seen.
    pub progress: bool,
}

impl Observer for Terminal {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Message(text) if !self.quiet => progress::above_bars(|| printer::complain(text)),
            Event::Result(text) if !self.json => progress::above_bars(|| printer::piece(&visible::lines(text))),
            Event::Message(_) | Event::Result(_) => {}
        }
    }

    fn bar(&self, style: BarStyle, label: &str, done: u64, total: u64) -> Option<Box<dyn ProgressBar>> {
        self.progress.then(|| Box::new(progress::bar(style, label, done, total)) as Box<dyn ProgressBar>)
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        interrupt::stop_flag()
    }

    fn abort(&self, failure: &Failure) {
        printer::failure(failure);
        std::process::exit(1);
    }
}
