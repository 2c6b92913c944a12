//! Requests to stop.

use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked to stop.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// With the flag that a request sets.
    pub fn new(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Fails if so. The folder that was begun disappears with the failure.
    ///
    /// # Errors
    /// Then.
    pub fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Failure::run("stopped by Ctrl-C or SIGTERM; nothing was written")),
            false => Ok(()),
        }
    }
}
