//! What a run leaves on disk.

pub mod atomic;
pub mod tensors;
