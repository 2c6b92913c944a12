//! Memory of the device: allocations of the host, and which addresses are in one.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of allocations, as in cuMemAlloc.
const ALIGNMENT: usize = 512;

/// All allocations of this process.
#[derive(Debug, Default)]
pub struct Memory {
    /// Bytes by first address.
    held: BTreeMap<u64, u64>,
    used: u64,
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory { held: BTreeMap::new(), used: 0 });

impl Memory {
    /// The one there is.
    pub fn lock() -> MutexGuard<'static, Self> {
        MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An allocation of zeros; `None` where the device would be full.
    pub fn allocate(&mut self, bytes: u64, capacity: u64) -> Option<u64> {
        let layout = Layout::from_size_align(bytes as usize, ALIGNMENT).ok().filter(|layout| layout.size() > 0)?;
        if self.used + bytes > capacity {
            return None;
        }
        // SAFETY: the layout is not empty.
        let first = unsafe { alloc_zeroed(layout) } as u64;
        if first == 0 {
            return None;
        }
        self.held.insert(first, bytes);
        self.used += bytes;
        Some(first)
    }

    /// Gives an allocation back; false if it is none.
    pub fn free(&mut self, first: u64) -> bool {
        let Some(bytes) = self.held.remove(&first) else { return false };
        self.used -= bytes;
        if let Ok(layout) = Layout::from_size_align(bytes as usize, ALIGNMENT) {
            // SAFETY: it was allocated with this layout and is no longer listed.
            unsafe { dealloc(first as *mut u8, layout) };
        }
        true
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Whether bytes are all within one allocation.
    pub fn holds(&self, first: u64, bytes: u64) -> bool {
        let Some((start, size)) = self.held.range(..=first).next_back() else { return false };
        first - start + bytes <= *size
    }

    /// First address and bytes of every allocation, in order.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.held.iter().map(|(first, bytes)| (*first, *bytes)).collect()
    }
}

#[cfg(test)]
mod tests;
