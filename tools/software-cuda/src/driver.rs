//! The functions of libcuda, with the meaning that NVIDIA's reference gives them.

#![allow(non_snake_case, reason = "the names of another library")]

mod allocations;
mod graphs;
mod modules;
mod streams;

use crate::block::{Fault, Launch};
use crate::memory::Memory;
use crate::ptx::Kernel;
use crate::stream::{Node, captures};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

type Status = c_int;

const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_DEVICE: Status = 101;
const NO_BINARY: Status = 209;
const NOT_FOUND: Status = 500;
const ILLEGAL_ADDRESS: Status = 700;
const CAPTURE_UNSUPPORTED: Status = 900;
const CAPTURE_INVALIDATED: Status = 901;
const CAPTURE_UNMATCHED: Status = 903;

/// Device settings from the environment.
struct Settings {
    devices: c_int,
    /// Bytes of memory of each device.
    memory: u64,
    /// Compute capability: 90 for Hopper.
    capability: u32,
    /// Whether kernels are loaded and not run.
    dry: bool,
    /// Parts of names of kernels that are not run.
    skipped: Vec<String>,
    /// Whether every launch is told.
    told: bool,
}

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
        let skipped = std::env::var("SOFTWARE_CUDA_SKIP").unwrap_or_default();
        Settings {
            skipped: skipped.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            devices: number("SOFTWARE_CUDA_DEVICES").map_or(1, |devices| devices.min(64) as c_int),
            memory: u64::from(number("SOFTWARE_CUDA_MEMORY_MIB").unwrap_or(8192)) << 20,
            capability: number("SOFTWARE_CUDA_CAPABILITY").unwrap_or(90),
            dry: number("SOFTWARE_CUDA_DRY").is_some_and(|dry| dry != 0),
            told: number("SOFTWARE_CUDA_LAUNCHES").is_some_and(|told| told != 0),
        }
    })
}

/// After a thread has read or written what is no memory, a device serves no more.
static LOST: AtomicBool = AtomicBool::new(false);

fn told(result: Result<(), Fault>) -> Status {
    let Err(Fault(reason)) = result else { return SUCCESS };
    eprintln!("software CUDA: {reason}");
    LOST.store(true, Ordering::Relaxed);
    ILLEGAL_ADDRESS
}

fn status() -> Status {
    if LOST.load(Ordering::Relaxed) { ILLEGAL_ADDRESS } else { SUCCESS }
}

/// Does a piece of work.
fn done(node: &Node) -> Result<(), Fault> {
    let start = Instant::now();
    let skipped = |kernel: &Kernel| settings().skipped.iter().any(|part| kernel.name.contains(part));
    let result = node.run(&|kernel| !settings().dry && !skipped(kernel));
    if let (true, Node::Launch(kernel, Launch { grid, threads, .. })) = (settings().told, node) {
        eprintln!(
            "software CUDA: {:.4} s: {} of {grid:?} blocks of {threads:?}",
            start.elapsed().as_secs_f64(),
            kernel.name
        );
    }
    result
}

/// Notes work of a stream that is captured, and does that of others.
fn enqueue(stream: u64, node: impl FnOnce() -> Node) -> Status {
    let noted = captures(|captures| match captures.of(stream) {
        Some(capture) => {
            capture.nodes.push(node());
            None
        }
        None => Some(node()),
    });
    match (noted, status()) {
        (None, _) => SUCCESS,
        (Some(node), SUCCESS) => told(done(&node)),
        (Some(_), lost) => lost,
    }
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `to` is null or can be written to.
unsafe fn give<T>(to: *mut T, value: T) -> Status {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: as the caller promises.
    unsafe { to.write(value) };
    SUCCESS
}

/// A number that no other handle has.
fn handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(version, 13_000) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(count, settings().devices) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    if !(0..settings().devices).contains(&ordinal) {
        return INVALID_DEVICE;
    }
    // SAFETY: as NVIDIA's.
    unsafe { give(device, ordinal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, _device: c_int) -> Status {
    // The runtime tells tensor cores by the name.
    let bytes = b"NVIDIA H200 in software\0";
    if name.is_null() || (length as usize) < bytes.len() {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, bytes.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> Status {
    let found = match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => 48 << 10,
        10 => 32,
        16 => 132,
        39 => 2048,
        75 => settings().capability as c_int / 10,
        76 => settings().capability as c_int % 10,
        81 => 228 << 10,
        97 => 227 << 10,
        // Memory pools, unified addresses.
        41 | 115 => 1,
        _ => 0,
    };
    // SAFETY: as NVIDIA's.
    unsafe { give(value, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(_bus: *mut c_char, _length: c_int, _device: c_int) -> Status {
    NOT_FOUND
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(uuid, [device as u8; 16]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(bytes, settings().memory as usize) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status {
    let capacity = settings().memory * settings().devices as u64;
    let left = capacity.saturating_sub(Memory::lock().used());
    // SAFETY: as NVIDIA's.
    unsafe { give(free, left.min(settings().memory) as usize).max(give(total, settings().memory as usize)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(context, device as u64 + 1) }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(_context: u64) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(context, 1) }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Status {
    if captures(|captures| captures.spoil()) { CAPTURE_UNSUPPORTED } else { status() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { give(least, 0).max(give(greatest, -5)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: Status, name: *mut *const c_char) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { cuGetErrorString(error, name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: Status, text: *mut *const c_char) -> Status {
    let spelled: &CStr = match error {
        SUCCESS => c"no error",
        INVALID_VALUE => c"invalid argument",
        OUT_OF_MEMORY => c"out of memory",
        INVALID_DEVICE => c"invalid device ordinal",
        NO_BINARY => c"this driver in software cannot run the kernel",
        NOT_FOUND => c"named symbol not found",
        ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        CAPTURE_UNSUPPORTED => c"operation not permitted when stream is capturing",
        CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        CAPTURE_UNMATCHED => c"the capture was not started here",
        _ => c"unknown error",
    };
    // SAFETY: as NVIDIA's.
    unsafe { give(text, spelled.as_ptr()) }
}
