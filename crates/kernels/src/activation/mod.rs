//! The gate of the feed-forward network.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod gradient;
mod kernel;
mod launch;
pub mod reference;

pub use gradient::silu_gate_tracked;
pub use kernel::{gate_rows, silu_rows, soft_cap_rows};
pub use launch::{gate, gate_on_team, silu, soft_cap};

/// The function applied to the gate before it multiplies the up projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`.
    GeluTanh,
}
