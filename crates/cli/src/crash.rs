//! Panics: defects of this program.

use gorgon_workflows::failure::{Failure, panic_message};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Mutex;

/// Where the last panic began in the source, and the calls that led there if they are wanted. Panics that a library
/// catches are seen too, and forgotten.
static LAST: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

/// Runs the program; a panic becomes a failure that says where it was and how to report it.
///
/// # Errors
/// When the program panics.
pub fn caught<T>(program: impl FnOnce() -> T) -> Result<T, Failure> {
    set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        if let Ok(mut last) = LAST.lock() {
            *last = Some((place, Backtrace::capture()));
        }
    }));
    catch_unwind(AssertUnwindSafe(program)).map_err(|panic| {
        let last = LAST.lock().ok().and_then(|mut last| last.take());
        let (place, calls) = last.unwrap_or_else(|| ("an unknown place".to_owned(), Backtrace::disabled()));
        if calls.status() == BacktraceStatus::Captured {
            crate::printer::complain(&calls.to_string());
        }
        Failure::run(format!("internal error at {place}: {}", panic_message(&*panic))).hint(
            "this is a bug in gorgon: please report it with this message, the command and the output of gorgon doctor \
             (RUST_BACKTRACE=1 adds the calls)",
        )
    })
}

#[cfg(test)]
mod tests;
