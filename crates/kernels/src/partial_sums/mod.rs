//! Products on a GPU whose parts of K are not added up yet.
//!
//! A product of few rows splits K ([`crate::skinny_matmul`]), and its parts are added in their order. A launch that
//! reads the product adds them as it reads: the norm after a residual, the gate, the writing of keys and values. So a
//! step has a launch and a round trip through memory less for each product. The sum is rounded to the product's number
//! format before anything else is done with it, so results have the same bits as with a launch of its own.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
pub(crate) mod device_tests;
mod launch;
pub mod reference;

#[cfg(feature = "gpu")]
pub(crate) use cube::{summed, summed_vector};
pub use launch::PartialSums;
#[cfg(feature = "gpu")]
pub(crate) use launch::Unadded;
