//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A spinner that says what is going on, if progress is wanted.
pub fn spinner(shown: bool, what: impl Into<String>) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what.into());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A bar over bytes, if progress is wanted.
pub fn transfer(shown: bool, what: impl Into<String>, total: u64) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:40!} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let bar = ProgressBar::new(total).with_message(what.into());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// A bar over a number of things, if progress is wanted.
pub fn count(shown: bool, what: impl Into<String>, total: u64) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} · {eta} left");
    let bar = ProgressBar::new(total).with_message(what.into());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
