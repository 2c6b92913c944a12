//! Blocks of threads, and launches of many.

mod run;

pub use run::run;

use crate::ptx::{Instruction, Kernel};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a launch ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

/// Arguments of a kernel launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub threads: [u32; 3],
    /// Bytes of shared memory beside those that the kernel declares.
    pub shared: usize,
    /// The parameters, as the kernel lays them out.
    pub params: Vec<u64>,
}

/// State that the threads of a block share.
#[derive(Debug)]
pub struct Block<'a> {
    /// The program they run.
    pub kernel: &'a Kernel,
    launch: &'a Launch,
    /// Which block it is.
    index: [u32; 3],
    /// In words, so that it is aligned.
    shared: Vec<u128>,
    /// Memory of the device and of the module.
    ranges: &'a [(u64, u64)],
    /// The one that was asked for last.
    last: AtomicU64,
}

impl Block<'_> {
    /// First address and bytes of shared memory.
    pub fn shared(&self) -> (u64, u64) {
        (self.shared.as_ptr() as u64, (self.kernel.shared + self.launch.shared) as u64)
    }

    /// First address and bytes of the parameters.
    pub fn params(&self) -> (u64, u64) {
        (self.launch.params.as_ptr() as u64, size_of_val(self.launch.params.as_slice()) as u64)
    }

    /// Whether bytes at a generic address are memory of the device, the block or the launch.
    pub fn holds(&self, first: u64, bytes: u64) -> bool {
        let within = |(start, size): (u64, u64)| first >= start && first - start + bytes <= size;
        let last = self.last.load(Ordering::Relaxed) as usize;
        if self.ranges.get(last).is_some_and(|range| within(*range)) {
            return true;
        }
        let at = self.ranges.partition_point(|(start, _)| *start <= first);
        if let Some(found) = at.checked_sub(1).filter(|at| within(self.ranges[*at])) {
            self.last.store(found as u64, Ordering::Relaxed);
            return true;
        }
        within(self.shared()) || within(self.params())
    }

    /// The error, and where it happened.
    pub fn fault(&self, instruction: &Instruction, reason: String) -> Fault {
        let Self { kernel, index, .. } = self;
        Fault(format!("{}, block {index:?}: {instruction:?}: {reason}", kernel.name))
    }
}
