//! Root-mean-square normalisation.

mod kernel;
mod launch;
pub mod reference;

pub use kernel::rms_norm as rms_norm_rows;
pub use launch::rms_norm;
