//! The system's allocator: its allocations are counted, so that a measurement can say how many a decode step makes, and
//! what it keeps for later can be handed back, so that a measurement does not count what was there before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Allocations since the program began.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// The first thing that the program does. Lets all threads allocate from one arena. With an arena for each, every one
/// keeps what was freed in it for its own thread, and the process holds a fifth more than is ever in use together.
pub fn share() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// `M_ARENA_MAX` of glibc's `malloc.h`.
        const ARENA_MAX: i32 = -8;
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        // SAFETY: the signature is glibc's, and no other thread has begun yet.
        let _ = unsafe { mallopt(ARENA_MAX, 1) };
    }
}

/// Hands memory that is free, but kept for later, back to the system, where the allocator can.
pub fn hand_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(keep: usize) -> i32;
        }
        // SAFETY: a function of glibc that any thread may call at any time.
        let _ = unsafe { malloc_trim(0) };
    }
}

/// The system's allocator, counted.
pub struct Counted;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}
