//! A step of AdamW (Loshchilov and Hutter, 2019) over a flat parameter: on a GPU one launch, which reads and writes each
//! number of the weights and moments once.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod kernel;
mod launch;
pub mod reference;

pub use kernel::update_values;
pub use launch::update;

/// One step's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// `β₁`, `β₂`.
    pub betas: (f32, f32),
    /// `1 / (1 - β₁ᵗ)`, `1 / (1 - β₂ᵗ)` at step `t`.
    pub corrections: (f32, f32),
    /// `ε`.
    pub epsilon: f32,
    /// Learning rate.
    pub rate: f32,
    /// Factor of the weight decay, `1 - rate · decay`.
    pub keep: f32,
}

#[cfg(test)]
mod tests;
