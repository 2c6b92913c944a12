//! Streams and what is recorded of them.
//!
//! Work is done when it is asked for, so a stream has nothing to wait for; while one is captured, its work is noted
//! instead and done at every replay.

use crate::block::{self, Fault, Launch};
use crate::ptx::Kernel;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A piece of a recording.
#[derive(Debug)]
pub enum Node {
    /// A kernel.
    Launch(Arc<Kernel>, Launch),
    /// A copy within the device: to, from, bytes.
    Copy(u64, u64, usize),
    /// Bytes that are sent up; those there were at the recording.
    Send(u64, Box<[u8]>),
    /// Memory was asked for, which no recording may do.
    Allocation,
}

impl Node {
    /// Does it, a kernel only if it is `wanted`.
    ///
    /// # Errors
    /// As [`block::run`].
    pub fn run(&self, wanted: &dyn Fn(&Kernel) -> bool) -> Result<(), Fault> {
        match self {
            Self::Launch(kernel, launch) if wanted(kernel) => block::run(kernel, launch)?,
            Self::Copy(to, from, bytes) => copy(*to, *from, *bytes),
            Self::Send(to, bytes) => copy(*to, bytes.as_ptr() as u64, bytes.len()),
            Self::Launch(..) | Self::Allocation => {}
        }
        Ok(())
    }
}

/// Copies bytes between two places that callers vouch for.
pub fn copy(to: u64, from: u64, bytes: usize) {
    // SAFETY: both are allocations of this driver or memory that the program handed over.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

/// A recording under way.
#[derive(Debug, Default)]
pub struct Capture {
    /// The request.
    pub nodes: Vec<Node>,
    /// Whether something was asked for that cannot be recorded.
    pub broken: bool,
}

/// All recordings under way, by stream.
#[derive(Debug, Default)]
pub struct Captures(HashMap<u64, Capture>);

static CAPTURES: Mutex<Option<Captures>> = Mutex::new(None);

/// Runs something with all recordings under way.
pub fn captures<R>(with: impl FnOnce(&mut Captures) -> R) -> R {
    let mut captures: MutexGuard<'_, Option<Captures>> = CAPTURES.lock().unwrap_or_else(PoisonError::into_inner);
    with(captures.get_or_insert_default())
}

impl Captures {
    /// Starts one; false where there is one.
    pub fn begin(&mut self, stream: u64) -> bool {
        if self.0.contains_key(&stream) {
            return false;
        }
        self.0.insert(stream, Capture::default());
        true
    }

    /// Ends one.
    pub fn end(&mut self, stream: u64) -> Option<Capture> {
        self.0.remove(&stream)
    }

    /// That of a stream.
    pub fn of(&mut self, stream: u64) -> Option<&mut Capture> {
        self.0.get_mut(&stream)
    }

    /// Spoils all of them, as calls do that a device cannot serve meanwhile; false where there is none.
    pub fn spoil(&mut self) -> bool {
        self.0.values_mut().for_each(|capture| capture.broken = true);
        !self.0.is_empty()
    }
}
