//! Ctrl-C, SIGTERM and SIGHUP.

use crate::printer;
use gorgon_workflows::failure::Failure;
use std::io::IsTerminal;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Who takes care of a request to stop.
enum Watcher {
    /// A job that saves and stops; nobody once it has dropped the flag.
    Job(Weak<AtomicBool>),
    /// A chat, which keeps its answer and continues.
    Chat(Arc<AtomicBool>),
}

static WATCHER: Mutex<Watcher> = Mutex::new(Watcher::Job(Weak::new()));

fn with_watcher<R>(work: impl FnOnce(&mut Watcher) -> R) -> R {
    work(&mut WATCHER.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Receives requests to stop from here on. While nobody watches for them, the program ends with a line: files appear
/// by renaming, so none is half-written.
///
/// # Errors
/// When the handler cannot be installed.
pub fn set_up() -> Result<(), Failure> {
    ctrlc::set_handler(received).map_err(Failure::run)?;
    #[cfg(unix)]
    {
        let mut signals = signal_hook::iterator::Signals::new(endings()).map_err(Failure::run)?;
        let receive = move || signals.forever().for_each(|_| received());
        std::thread::Builder::new().name("signals".into()).spawn(receive).map_err(Failure::run)?;
    }
    Ok(())
}

/// SIGTERM, and SIGHUP unless it is ignored, as under `nohup`: a handler would end that.
#[cfg(unix)]
fn endings() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let hangs_up = ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 0);
    if hangs_up { vec![SIGTERM, SIGHUP] } else { vec![SIGTERM] }
}

fn received() {
    let flag = with_watcher(|watcher| match watcher {
        Watcher::Job(flag) => flag.upgrade().map(|flag| (flag, true)),
        Watcher::Chat(flag) => Some((flag.clone(), false)),
    });
    match flag {
        Some((flag, false)) => flag.store(true, Ordering::Relaxed),
        Some((flag, true)) if !flag.swap(true, Ordering::Relaxed) => {
            printer::complain("stopping after this step; Ctrl-C again ends at once");
        }
        Some(_) => exit(130),
        None => {
            // A half-written line of an answer ends here.
            if std::io::stdout().is_terminal() {
                printer::piece("\n");
            }
            printer::failure(&Failure::run("stopped by Ctrl-C or SIGTERM; no file was left half-written"));
            exit(1);
        }
    }
}

/// A flag that a request to stop sets, for a job that saves and stops as long as it holds the flag. A second request
/// ends the program.
pub fn stop_flag() -> Arc<AtomicBool> {
    with_watcher(|watcher| {
        if let Watcher::Job(flag) = watcher
            && let Some(flag) = flag.upgrade()
        {
            return flag;
        }
        let flag = Arc::new(AtomicBool::new(false));
        *watcher = Watcher::Job(Arc::downgrade(&flag));
        flag
    })
}

/// From here on Ctrl-C stops an answer, never the program. SIGTERM ends it as if nobody received it.
///
/// # Errors
/// When SIGTERM cannot be given back.
pub fn stop_answers(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_default(signal_hook::consts::SIGTERM, always).map_err(Failure::run)?;
    with_watcher(|watcher| *watcher = Watcher::Chat(stop.clone()));
    Ok(())
}
