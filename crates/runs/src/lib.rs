//! What a run leaves on disk.

pub mod atomic;
pub mod crash;
mod error;
pub mod file;
pub mod metrics;
pub mod plot;
pub mod provenance;
pub mod run_dir;
pub mod sealed;
pub mod table;
pub mod tensors;

pub use error::RunError;
