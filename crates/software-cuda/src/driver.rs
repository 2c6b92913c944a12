//! The functions of libcuda, with the meaning that NVIDIA's reference gives them.

#![allow(non_snake_case, reason = "the names of another library")]

use crate::block::{Fault, Launch};
use crate::memory::Memory;
use crate::ptx::{self, Kernel};
use crate::stream::{Capture, Node, captures};
use crate::warp::TensorMap;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

/// What the environment says of the device.
struct Settings {
    devices: c_int,
    /// Bytes of memory of each device.
    memory: u64,
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
            dry: number("SOFTWARE_CUDA_DRY").is_some_and(|dry| dry != 0),
            told: number("SOFTWARE_CUDA_LAUNCHES").is_some_and(|told| told != 0),
        }
    })
}

/// After a thread has read or written what is no memory, a device serves no more.
static LOST: AtomicBool = AtomicBool::new(false);

/// What was done, for those who ask.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static REPLAYS: AtomicU64 = AtomicU64::new(0);
static MODULES: AtomicU32 = AtomicU32::new(0);

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
        75 => 9,
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

fn allocated(bytes: usize) -> Result<u64, Status> {
    let capacity = settings().memory * settings().devices as u64;
    Memory::lock().allocate(bytes as u64, capacity).ok_or(OUT_OF_MEMORY)
}

unsafe fn allocate(pointer: *mut u64, bytes: usize) -> Status {
    match allocated(bytes) {
        // SAFETY: as NVIDIA's.
        Ok(first) => unsafe { give(pointer, first) },
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> Status {
    if captures(|captures| captures.spoil()) {
        return CAPTURE_UNSUPPORTED;
    }
    // SAFETY: as NVIDIA's.
    unsafe { allocate(pointer, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: u64) -> Status {
    captures(|captures| captures.of(stream).map(|capture| capture.nodes.push(Node::Allocation)));
    // SAFETY: as NVIDIA's.
    unsafe { allocate(pointer, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: u64) -> Status {
    if captures(|captures| captures.spoil()) {
        return CAPTURE_UNSUPPORTED;
    }
    if pointer == 0 || Memory::lock().free(pointer) { SUCCESS } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(pointer: u64, stream: u64) -> Status {
    captures(|captures| captures.of(stream).map(|capture| capture.nodes.push(Node::Allocation)));
    if Memory::lock().free(pointer) { SUCCESS } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(pointer: *mut u64, bytes: usize) -> Status {
    // SAFETY: as NVIDIA's. It is the host's memory here as there.
    unsafe { allocate(pointer, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(pointer: u64) -> Status {
    if Memory::lock().free(pointer) { SUCCESS } else { INVALID_VALUE }
}

/// Whether device memory is all there; says so if not.
fn is_memory(what: &str, first: u64, bytes: usize) -> bool {
    let held = bytes == 0 || Memory::lock().holds(first, bytes as u64);
    if !held {
        eprintln!("software CUDA: {what} of {bytes} bytes at {first:#x}, where there is no device memory");
    }
    held
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: u64) -> Status {
    if !is_memory("a copy", to, bytes) {
        return INVALID_VALUE;
    }
    // SAFETY: the caller hands so many bytes over.
    let data = || unsafe { std::slice::from_raw_parts(from, bytes) };
    if bytes == 0 { SUCCESS } else { enqueue(stream, || Node::Send(to, data().into())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> Status {
    if !is_memory("a read", from, bytes) {
        return INVALID_VALUE;
    }
    enqueue(stream, || Node::Copy(to, from, bytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> Status {
    if !(is_memory("a copy", from, bytes) && is_memory("a copy", to, bytes)) {
        return INVALID_VALUE;
    }
    enqueue(stream, || Node::Copy(to, from, bytes))
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub struct Copy2d {
    src_x: usize,
    src_y: usize,
    src_kind: c_int,
    src_host: u64,
    src_device: u64,
    src_array: u64,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_kind: c_int,
    dst_host: u64,
    dst_device: u64,
    dst_array: u64,
    dst_pitch: usize,
    width: usize,
    height: usize,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: u64) -> Status {
    const HOST: c_int = 1;
    // SAFETY: as NVIDIA's.
    let Some(copy) = (unsafe { copy.as_ref() }) else { return INVALID_VALUE };
    let (from, to) = (
        if copy.src_kind == HOST { copy.src_host } else { copy.src_device },
        if copy.dst_kind == HOST { copy.dst_host } else { copy.dst_device },
    );
    for row in 0..copy.height {
        let from = from + ((copy.src_y + row) * copy.src_pitch + copy.src_x) as u64;
        let to = to + ((copy.dst_y + row) * copy.dst_pitch + copy.dst_x) as u64;
        let status = enqueue(stream, || Node::Copy(to, from, copy.width));
        if status != SUCCESS {
            return status;
        }
    }
    SUCCESS
}

unsafe fn fill<T: Clone>(to: u64, value: T, count: usize, stream: u64) -> Status {
    let bytes = count * size_of::<T>();
    if !is_memory("a fill", to, bytes) {
        return INVALID_VALUE;
    }
    let values = vec![value; count];
    // SAFETY: plain numbers are so many bytes.
    let data = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), bytes) };
    enqueue(stream, || Node::Send(to, data.into()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { fill(to, value, count, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: u64) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { fill(to, value, count, stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut TensorMap,
    kind: c_int,
    rank: c_uint,
    base: u64,
    sizes: *const u64,
    strides: *const u64,
    tile: *const c_uint,
    steps: *const c_uint,
    interleave: c_int,
    swizzle: c_int,
    _promotion: c_int,
    fill: c_int,
) -> Status {
    const BYTES: [u32; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];
    let (Some(entry), 1..=5, 0..=3) = (BYTES.get(kind as usize), rank, swizzle) else { return INVALID_VALUE };
    let mut new = TensorMap {
        base,
        sizes: [1; 5],
        strides: [0; 4],
        tile: [1; 5],
        entry: *entry,
        rank,
        swizzle: swizzle as u32,
        unused: [0; 3],
    };
    let mut unsupported = interleave != 0 || fill != 0 || !base.is_multiple_of(16);
    for i in 0..rank as usize {
        // SAFETY: as many of each as there are dimensions, of strides one less.
        unsafe {
            (new.sizes[i], new.tile[i]) = (*sizes.add(i), *tile.add(i));
            unsupported |= *steps.add(i) != 1 || new.tile[i] == 0 || new.tile[i] > 256 || new.sizes[i] == 0;
            if i > 0 {
                new.strides[i - 1] = *strides.add(i - 1);
                unsupported |= !new.strides[i - 1].is_multiple_of(16);
            }
        }
    }
    if unsupported || !(new.tile[0] * entry).is_multiple_of(16) {
        return INVALID_VALUE;
    }
    // SAFETY: as NVIDIA's.
    unsafe { give(map, new) }
}

type Module = HashMap<String, Arc<Kernel>>;

/// Says what cannot be run, once for each instruction's name.
fn tell_once(module: u32, what: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = what.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or(what);
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
        eprintln!("software CUDA: module {module}: cannot run {what}");
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut *mut Module, image: *const c_char) -> Status {
    if image.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: PTX ends with a zero.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
    let number = MODULES.fetch_add(1, Ordering::Relaxed);
    if let Ok(folder) = std::env::var("SOFTWARE_CUDA_PTX") {
        // For those who want to look at them; nothing depends on it.
        let _ = std::fs::write(std::path::Path::new(&folder).join(format!("{number}.ptx")), text.as_bytes());
    }
    match ptx::kernels(&text) {
        // SAFETY: as NVIDIA's.
        Ok(kernels) => unsafe { give(module, Box::into_raw(Box::new(kernels))) },
        Err(ptx::Unsupported(what)) => {
            tell_once(number, &what);
            NO_BINARY
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: *mut Module) -> Status {
    if !module.is_null() {
        // SAFETY: it is one of cuModuleLoadData's. Kernels are held by those who use them.
        drop(unsafe { Box::from_raw(module) });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *const Kernel,
    module: *const Module,
    name: *const c_char,
) -> Status {
    // SAFETY: modules are those of cuModuleLoadData, and a name ends with a zero.
    let (Some(module), name) = (unsafe { module.as_ref() }, unsafe { CStr::from_ptr(name) }) else {
        return INVALID_VALUE;
    };
    match name.to_str().ok().and_then(|name| module.get(name)) {
        // SAFETY: as NVIDIA's. A function lives as long as the process.
        Some(kernel) => unsafe { give(function, Arc::into_raw(kernel.clone())) },
        None => NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(_function: *const Kernel, _attribute: c_int, _value: c_int) -> Status {
    SUCCESS
}

/// The parameters of a launch, as the kernel lays them out.
///
/// # Safety
/// `params` points to as many pointers as the kernel has parameters, each to all bytes of one.
unsafe fn laid_out(kernel: &Kernel, params: *const *const u8) -> Vec<u64> {
    let end = kernel.params.last().map_or(0, |(at, bytes)| at + bytes);
    let mut memory = vec![0u64; end.div_ceil(8).max(1)];
    for (i, (at, bytes)) in kernel.params.iter().enumerate() {
        // SAFETY: as promised; there is room for all parameters.
        unsafe { std::ptr::copy_nonoverlapping(*params.add(i), memory.as_mut_ptr().cast::<u8>().add(*at), *bytes) };
    }
    memory
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: *const Kernel,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared: c_uint,
    stream: u64,
    params: *const *const u8,
    _extra: *const c_void,
) -> Status {
    let (grid, threads) = ([grid_x, grid_y, grid_z], [threads_x, threads_y, threads_z]);
    let too_large = grid_y > 65_535 || grid_z > 65_535 || threads.iter().product::<c_uint>() > 1024;
    if function.is_null() || grid.contains(&0) || threads.contains(&0) || too_large || shared > 227 << 10 {
        eprintln!("software CUDA: a launch of {grid:?} blocks of {threads:?} threads with {shared} bytes");
        return INVALID_VALUE;
    }
    // SAFETY: functions are those of cuModuleGetFunction, whose kernels are never given back.
    let kernel = unsafe {
        Arc::increment_strong_count(function);
        Arc::from_raw(function)
    };
    // SAFETY: as NVIDIA's.
    let params = unsafe { laid_out(&kernel, params) };
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
    enqueue(stream, || Node::Launch(kernel, Launch { grid, threads, shared: shared as usize, params }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: u64, _mode: c_int) -> Status {
    if captures(|captures| captures.begin(stream)) { SUCCESS } else { CAPTURE_UNSUPPORTED }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut *const Capture) -> Status {
    match captures(|captures| captures.end(stream)) {
        None => CAPTURE_UNMATCHED,
        Some(capture) if capture.broken => CAPTURE_INVALIDATED,
        // SAFETY: as NVIDIA's.
        Some(capture) => unsafe { give(graph, Arc::into_raw(Arc::new(capture))) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: u64, told: *mut c_int) -> Status {
    let captured = captures(|captures| captures.of(stream).map(|capture| if capture.broken { 2 } else { 1 }));
    // SAFETY: as NVIDIA's.
    unsafe { give(told, captured.unwrap_or(0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphGetNodes(graph: *const Capture, nodes: *mut *const Node, count: *mut usize) -> Status {
    // SAFETY: graphs are those of cuStreamEndCapture.
    let (Some(graph), Some(count)) = (unsafe { graph.as_ref() }, unsafe { count.as_mut() }) else {
        return INVALID_VALUE;
    };
    if !nodes.is_null() {
        *count = (*count).min(graph.nodes.len());
        // SAFETY: there is room for so many.
        graph.nodes.iter().take(*count).enumerate().for_each(|(i, node)| unsafe { nodes.add(i).write(node) });
    } else {
        *count = graph.nodes.len();
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphNodeGetType(node: *const Node, kind: *mut c_int) -> Status {
    // SAFETY: nodes are those of cuGraphGetNodes.
    let Some(node) = (unsafe { node.as_ref() }) else { return INVALID_VALUE };
    let number = match node {
        Node::Launch(..) => 0,
        Node::Copy(..) | Node::Send(..) => 1,
        Node::Allocation => 10,
    };
    // SAFETY: as NVIDIA's.
    unsafe { give(kind, number) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut *const Capture,
    graph: *const Capture,
    _flags: u64,
) -> Status {
    if graph.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: graphs are those of cuStreamEndCapture; an executable one shares it.
    unsafe {
        Arc::increment_strong_count(graph);
        give(executable, graph)
    }
}

/// Lets go of a graph.
///
/// # Safety
/// It is one of cuStreamEndCapture's or cuGraphInstantiateWithFlags's.
unsafe fn let_go(graph: *const Capture) -> Status {
    if !graph.is_null() {
        // SAFETY: as promised.
        drop(unsafe { Arc::from_raw(graph) });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: *const Capture) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { let_go(graph) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(graph: *const Capture) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { let_go(graph) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(_graph: *const Capture, _stream: u64) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(graph: *const Capture, stream: u64) -> Status {
    // SAFETY: graphs are those of cuGraphInstantiateWithFlags.
    let Some(graph) = (unsafe { graph.as_ref() }) else { return INVALID_VALUE };
    if captures(|captures| captures.of(stream).map(|capture| capture.broken = true)).is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    REPLAYS.fetch_add(1, Ordering::Relaxed);
    let lost = status();
    if lost != SUCCESS {
        return lost;
    }
    told(graph.nodes.iter().try_for_each(done))
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

/// What was done so far: modules, launches, replays, and the most bytes in use.
#[unsafe(no_mangle)]
unsafe extern "C" fn software_cuda_counts(counts: *mut [u64; 4]) -> Status {
    let told = [
        u64::from(MODULES.load(Ordering::Relaxed)),
        LAUNCHES.load(Ordering::Relaxed),
        REPLAYS.load(Ordering::Relaxed),
        Memory::lock().peak(),
    ];
    // SAFETY: as with the rest.
    unsafe { give(counts, told) }
}
