//! Streams and events.

#![allow(non_snake_case, reason = "the names of another library")]

use super::{CAPTURE_UNSUPPORTED, INVALID_VALUE, SUCCESS, Status, give, handle, status};
use crate::stream::captures;
use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut u64, _flags: c_uint) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(stream, handle()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut u64, _flags: c_uint, _priority: c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(stream, handle()) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: u64) -> Status {
    captures(|captures| captures.end(stream));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: u64) -> Status {
    let captured = captures(|captures| captures.of(stream).map(|capture| capture.broken = true));
    if captured.is_some() { CAPTURE_UNSUPPORTED } else { status() }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: u64, event: *const Event, _flags: c_uint) -> Status {
    // A stream that waits for what another records would be recorded too.
    // SAFETY: events are those of cuEventCreate.
    let of = unsafe { event.as_ref() }.map_or(0, |event| event.stream.load(Ordering::Relaxed));
    let joins = captures(|captures| of != stream && captures.of(of).is_some() && captures.spoil());
    if joins { CAPTURE_UNSUPPORTED } else { SUCCESS }
}

/// A moment in a stream.
pub struct Event {
    /// Nanoseconds since the first event.
    at: AtomicU64,
    stream: AtomicU64,
    captured: AtomicBool,
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut Event, _flags: c_uint) -> Status {
    let new = Event { at: AtomicU64::new(now()), stream: AtomicU64::new(0), captured: AtomicBool::new(false) };
    // SAFETY: as NVIDIA's.
    unsafe { give(event, Box::into_raw(Box::new(new))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: *mut Event) -> Status {
    if !event.is_null() {
        // SAFETY: it is one of cuEventCreate's, and nobody uses it any more.
        drop(unsafe { Box::from_raw(event) });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: *const Event, stream: u64) -> Status {
    // SAFETY: events are those of cuEventCreate.
    let Some(event) = (unsafe { event.as_ref() }) else { return INVALID_VALUE };
    event.at.store(now(), Ordering::Relaxed);
    event.stream.store(stream, Ordering::Relaxed);
    event.captured.store(captures(|captures| captures.of(stream).is_some()), Ordering::Relaxed);
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: *const Event) -> Status {
    // SAFETY: events are those of cuEventCreate.
    let captured = unsafe { event.as_ref() }.is_some_and(|event| event.captured.load(Ordering::Relaxed));
    if captured && captures(|captures| captures.spoil()) { CAPTURE_UNSUPPORTED } else { status() }
}

unsafe fn elapsed(milliseconds: *mut f32, start: *const Event, end: *const Event) -> Status {
    // SAFETY: events are those of cuEventCreate.
    let (Some(start), Some(end)) = (unsafe { start.as_ref() }, unsafe { end.as_ref() }) else { return INVALID_VALUE };
    let nanoseconds = end.at.load(Ordering::Relaxed).saturating_sub(start.at.load(Ordering::Relaxed));
    // SAFETY: as NVIDIA's.
    unsafe { give(milliseconds, nanoseconds as f32 / 1e6) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *const Event, end: *const Event) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { elapsed(milliseconds, start, end) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: *const Event, end: *const Event) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { elapsed(milliseconds, start, end) }
}
