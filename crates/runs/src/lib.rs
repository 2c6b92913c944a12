//! The files that a run leaves on disk.

pub mod atomic;
pub mod crash;
mod error;
pub mod file;
pub mod json;
pub mod metrics;
pub mod plot;
pub mod provenance;
pub mod run_dir;
pub mod sealed;
pub mod table;
pub mod tensors;
pub mod visible;

pub use error::RunError;
