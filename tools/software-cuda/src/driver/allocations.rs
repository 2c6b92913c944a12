//! Memory, and copies to it and from it.

#![allow(non_snake_case, reason = "the names of another library")]

use super::{CAPTURE_UNSUPPORTED, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, Status, enqueue, give, settings};
use crate::memory::Memory;
use crate::stream::{Node, captures};
use std::ffi::c_int;

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
