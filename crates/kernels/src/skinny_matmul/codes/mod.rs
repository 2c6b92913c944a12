//! Those products with weights of 8 or 4 bits: `w[c, k] = scale[c, g] · code[c, k]`, `g` the group of input `k`.
//!
//! Codes lie in the order of [`super::reference::place`], so that a lane reads its share of a block in two loads of 16
//! bytes, or in one. They become 16-bit numbers in registers, exactly, right before they are multiplied. Scales are
//! applied to sums in `f32`: to those of a block of 32 inputs where a column has several groups, otherwise to those of a
//! part of K. So no weight is rounded again, and rows are independent of their number as they are with 16-bit weights.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod launch;
pub mod reference;

pub use launch::CodedFragments;

use super::{INPUTS, fits, part_blocks_of};
use crate::quantised_matmul::{CodeBits, Codes};

/// How many blocks of inputs a warp loads before it multiplies them: eight loads of 16 bytes are under way in a lane.
fn ahead(bits: CodeBits, blocks: usize) -> usize {
    let most = match bits {
        CodeBits::Four => 8,
        CodeBits::Eight => 4,
    };
    super::ahead_of(blocks, most)
}

/// Blocks of inputs of a part of K.
pub fn part_blocks(bits: CodeBits, d_in: usize, d_out: usize) -> usize {
    part_blocks_of(d_in, d_out, ahead(bits, d_in / INPUTS))
}

/// Parts of K, none of which is without inputs.
pub fn parts(bits: CodeBits, d_in: usize, d_out: usize) -> usize {
    (d_in / INPUTS).div_ceil(part_blocks(bits, d_in, d_out)).max(1)
}

/// True if these codes can be stored as fragments. Rows and groups must be whole blocks of inputs, inputs in their
/// order; the middle code must stand for zero, and no table give the numbers.
pub fn holds(codes: &Codes) -> bool {
    let whole_groups = codes.group.is_multiple_of(INPUTS) || codes.group >= codes.d_in;
    fits(codes.d_in, codes.d_out)
        && whole_groups
        && codes.can_be_packed()
        && codes.zeros.is_none()
        && codes.order.is_none()
        && codes.numbers.is_none()
}
