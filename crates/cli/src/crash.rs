//! Panics: defects of this program, or devices that fail.

use gorgon_workflows::failure::{Failure, panic_message};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Mutex;

/// Where the last panic began in the source, and the calls that led there if they are wanted. Panics that a library
/// catches are seen too, and forgotten.
static LAST: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

/// Runs the program; a panic becomes a failure that says where it was and how to report it, or that the device failed.
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
        failure(&place, &panic_message(&*panic))
    })
}

/// The failure that a panic at a place of the source means. The libraries that drive GPUs panic where a device is lost,
/// out of memory or refuses a kernel.
fn failure(place: &str, message: &str) -> Failure {
    let of_device = |part: &str| DRIVERS.iter().any(|driver| part.starts_with(driver));
    let folders = place.rsplit_once(['/', '\\']).map_or("", |(folders, _)| folders);
    if folders.split(['/', '\\']).any(of_device) {
        return Failure::run(format!("the device failed: {message} ({place})")).hint(
            "gorgon doctor lists the devices; see whether another program fills this one's memory, or use --device cpu",
        );
    }
    Failure::run(format!("internal error at {place}: {message}")).hint(
        "this is a bug in gorgon: please report it with this message, the command and the output of gorgon doctor \
         (RUST_BACKTRACE=1 adds the calls)",
    )
}

/// Libraries that drive GPUs, as the folders of their sources begin.
const DRIVERS: [&str; 3] = ["cubecl", "cudarc", "wgpu"];

#[cfg(test)]
mod tests;
