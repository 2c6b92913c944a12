//! Drafters of a server, whose weights are replaced by newer ones while it runs.

use crate::console::Console;
use crate::drafting::{Drafters, Drafting, Newer};
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::Decoder;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often newer weights are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// The newest drafters, and how often they were replaced.
pub struct Renewal<'a> {
    drafting: &'a Drafting,
    newest: Mutex<Arc<Drafters>>,
    version: AtomicU64,
}

impl<'a> Renewal<'a> {
    /// Begins with these drafters.
    pub fn new(drafting: &'a Drafting, drafters: Drafters) -> Self {
        Self { drafting, newest: Mutex::new(Arc::new(drafters)), version: AtomicU64::new(0) }
    }

    /// A drafter for one sequence, with the newest weights.
    pub fn drafter(&self) -> Box<dyn Drafter> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.drafting.drafter(&newest)
    }

    /// How often the weights were replaced.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Loads newer weights whenever they appear, until `over` is set. Those that cannot be loaded are reported, and
    /// drafting goes on with the ones before.
    pub fn watch(&self, mut newer: Newer, decoder: &Arc<Decoder>, over: &AtomicBool, console: &Console) {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if !newer.appeared() {
                continue;
            }
            let path = newer.path().display().to_string();
            match self.drafting.renewed(decoder) {
                Ok(drafters) => {
                    *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(drafters);
                    self.version.fetch_add(1, Ordering::Release);
                    console.say(format!("newer weights of the drafter, for answers that begin from now on: {path}"));
                }
                Err(failure) => {
                    let reason = failure.message();
                    console.say(format!("note: newer weights of the drafter are not used: {path}: {reason}"));
                }
            }
        }
    }
}
