//! Root-mean-square normalisation.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod gradient;
mod kernel;
mod launch;
pub mod reference;

pub use gradient::rms_norm_tracked;
pub use kernel::{add_rows, rms_norm as rms_norm_rows};
pub use launch::{add_rms_norm, rms_norm};
