//! A CUDA driver without a GPU: the part of libcuda that this project's programs call, with a device of which all
//! memory is the host's and whose kernels are run from their PTX, warp by warp, on the CPU.
//!
//! It is for finding mistakes where there is no GPU: kernels go through the real compiler (NVRTC), launches through the
//! real runtime, captures and replays included; a thread that reads or writes outside memory is named. It says nothing
//! of speed. What it cannot run — of Hopper's instructions those that copy or multiply in the background — it refuses
//! when the module is loaded, with the instruction on stderr.
//!
//! The library is found as `libcuda.so` on `LD_LIBRARY_PATH`; NVRTC and its headers are NVIDIA's.

mod block;
mod driver;
mod memory;
mod nccl;
mod ptx;
mod stream;
#[cfg(test)]
mod tests;
mod warp;
