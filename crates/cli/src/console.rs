//! Renders what jobs report: messages, progress bars, and results for people.

use crate::interrupt;
use crate::printer;
use crate::progress;
use gorgon_workflows::console::{BarStyle, Event, Observer, ProgressBar};
use gorgon_workflows::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What of the reports is shown.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Nothing but results and errors.
    pub quiet: bool,
    /// Details too.
    pub verbose: bool,
    /// Results as one JSON document, which the command prints itself.
    pub json: bool,
    /// Whether progress bars are wanted and can be seen.
    pub progress: bool,
}

impl Observer for Terminal {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Message(text) if !self.quiet => progress::above_bars(|| printer::complain(text)),
            Event::Detail(text) if self.verbose => progress::above_bars(|| printer::complain(text)),
            Event::Result(text) if !self.json => progress::above_bars(|| printer::piece(text)),
            Event::Message(_) | Event::Detail(_) | Event::Result(_) => {}
        }
    }

    fn bar(&self, style: BarStyle, label: &str, done: u64, total: u64) -> Option<Box<dyn ProgressBar>> {
        self.progress.then(|| Box::new(progress::bar(style, label, done, total)) as Box<dyn ProgressBar>)
    }

    fn stop_flag(&self) -> Result<Arc<AtomicBool>, Failure> {
        interrupt::stop_flag()
    }

    fn abort(&self, failure: &Failure) {
        printer::failure(failure, self.json);
        std::process::exit(1);
    }
}
