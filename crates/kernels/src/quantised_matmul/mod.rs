//! `y = x · Wᵀ` with `W` in integer codes of 8 or 4 bits and a scale per output column, or per group of inputs.
//!
//! A weight is `w[c, k] = scale[c, g] · (code[c, k] - zero[c, g])`, `g` the group of input `k`, or
//! `scale[c, g] · number[code[c, k]]` with a table of numbers (8-bit floats, NF4). Inputs are either multiplied as they
//! are ([`Activations::Exact`]: the definition is [`reference::exact`], the bits are those of a
//! matmul with the dequantised weights; always so with a table), or rounded to 8 or 16 bits with a scale per row and group. Then
//!
//! `y[r, c] = Σ_g (scale[c, g] · s[r, g]) · (Σ_{k in g} q[r, k] · (code[c, k] - zero[c, g]))`,
//!
//! where the inner sum is exact in 32-bit integers and the outer one is a chain of fused multiply-adds in `f32` over
//! increasing `g`. So a row's bits depend neither on the rows beside it, nor on threads, nor on the instruction set.
//!
//! Codes are unsigned and stored in panels of [`PANEL`] output columns. A *line* of a panel is 128 bytes: four
//! neighbouring inputs of each column (8 bits), or eight (4 bits: inputs 0 to 3 in the low halves, 4 to 7 in the high
//! ones). That is the order in which byte dot products read them.

mod activations;
mod kernel;
mod launch;
mod matrix;
pub mod reference;
mod rounding;
mod scales;

pub use activations::Activations;
pub use kernel::quantised_matmul;
pub use launch::matmul;
pub use matrix::{CodeSource, Codes, Numbers, QuantisedMatrix};
pub use rounding::{Rounded, Rounding, ScaleSearch};
pub use scales::ScaleFormat;

/// Output columns per panel.
pub const PANEL: usize = 32;
/// Bytes of a line: four for each column.
const LINE: usize = 4 * PANEL;
/// Inputs of a group at most, so that sums fit 32 bits: `255 · 127 · 65536 < 2^31`.
pub const LARGEST_GROUP: usize = 1 << 16;

/// Size of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeBits {
    /// 0 to 15.
    Four,
    /// 0 to 255.
    Eight,
}

impl CodeBits {
    /// Bits of a code.
    pub fn bits(self) -> usize {
        match self {
            CodeBits::Four => 4,
            CodeBits::Eight => 8,
        }
    }

    /// Zero point of symmetric codes.
    pub fn middle(self) -> u8 {
        match self {
            CodeBits::Four => 8,
            CodeBits::Eight => 128,
        }
    }

    /// Inputs of a line.
    pub fn inputs_per_line(self) -> usize {
        match self {
            CodeBits::Four => 8,
            CodeBits::Eight => 4,
        }
    }
}
