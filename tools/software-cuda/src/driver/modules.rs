//! Modules, their kernels and launches.

#![allow(non_snake_case, reason = "the names of another library")]

use super::{INVALID_VALUE, NO_BINARY, NOT_FOUND, SUCCESS, Status, enqueue, give};
use crate::block::Launch;
use crate::ptx::{self, Kernel};
use crate::stream::Node;
use crate::warp::TensorMap;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    static MODULES: AtomicU32 = AtomicU32::new(0);
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
    enqueue(stream, || Node::Launch(kernel, Launch { grid, threads, shared: shared as usize, params }))
}
