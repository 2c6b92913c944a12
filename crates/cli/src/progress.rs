//! Progress bars.

use gorgon_runs::visible;
use gorgon_workflows::console::{self, BarStyle};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::OnceLock;
use std::time::Duration;

/// All bars that jobs show, so that messages can be written above them.
fn all() -> &'static MultiProgress {
    static ALL: OnceLock<MultiProgress> = OnceLock::new();
    ALL.get_or_init(MultiProgress::new)
}

/// Writes something while the bars are out of the way.
pub fn above_bars(write: impl FnOnce()) {
    all().suspend(write);
}

/// A bar that a job moves.
pub struct Shown(ProgressBar);

impl console::ProgressBar for Shown {
    fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    fn set_message(&self, message: String) {
        self.0.set_message(visible::line(&message));
    }

    fn clear(&self) {
        self.0.finish_and_clear();
        all().remove(&self.0);
    }
}

/// Begins a bar.
pub fn bar(style: BarStyle, label: &str, done: u64, total: u64) -> Shown {
    let bar = match style {
        BarStyle::Spinner => ProgressBar::new_spinner(),
        _ => ProgressBar::new(total),
    };
    let bar = all().add(bar.with_message(visible::line(label)));
    let template = match style {
        BarStyle::Spinner => None,
        BarStyle::Transfer => Some("{msg:40!} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}"),
        BarStyle::Count => Some("{bar:24} {pos}/{len} {msg} · {eta} left"),
        BarStyle::Conversations => Some("{bar:24} {pos}/{len} conversations · {msg} · {eta} left"),
        BarStyle::Steps => Some("{bar:24} {pos}/{len} {msg}"),
    };
    match template {
        None => bar.enable_steady_tick(Duration::from_millis(100)),
        Some(template) => {
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
    }
    if done > 0 {
        bar.set_position(done);
        bar.reset_eta();
    }
    Shown(bar)
}

/// A bar over a number of things, if progress is wanted.
pub fn count(shown: bool, what: &str, total: u64) -> ProgressBar {
    if shown { bar(BarStyle::Count, what, 0, total).0 } else { ProgressBar::hidden() }
}
