//! Ctrl-C.

use crate::printer;
use gorgon_workflows::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A flag that Ctrl-C sets: the first time jobs save and stop, the second time the program ends.
///
/// # Errors
/// When the handler cannot be installed.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    // One handler for the whole process, whatever jobs it does.
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(flag.clone());
    }
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        printer::complain("stopping after this step; Ctrl-C again ends at once");
    })
    .map_err(Failure::run)?;
    Ok(FLAG.get_or_init(|| flag).clone())
}
