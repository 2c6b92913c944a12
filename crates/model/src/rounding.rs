//! How weights become integers.

use crate::device::{Compute, Weights};
use gorgon_kernels::quantised_matmul::{Activations, CodeBits, Rounding, ScaleFormat, ScaleSearch};

/// A scale for each output: sums of all inputs are exact, and nothing slows a product down.
pub(crate) const EIGHT_BITS: Rounding =
    Rounding { bits: CodeBits::Eight, group: None, scale_format: ScaleFormat::F32, search: ScaleSearch::Fitted };
/// With more exact inputs the rounding of weights is most of the error, and smaller groups make it less.
const EIGHT_BITS_IN_GROUPS: Rounding = Rounding { group: Some(32), scale_format: ScaleFormat::F16, ..EIGHT_BITS };
/// Scales for as many inputs as the usual blocks of 4 bits have.
const FOUR_BITS: Rounding =
    Rounding { bits: CodeBits::Four, group: Some(32), scale_format: ScaleFormat::F16, search: ScaleSearch::Clipped };

/// How `--weights` has matrices rounded; `None` where they stay as they are. A GPU has the roundings that the CPU takes
/// by default.
pub(crate) fn rounding(compute: &Compute) -> Option<Rounding> {
    let integers = compute.integers();
    match integers.weights {
        Weights::Stored => None,
        Weights::Int8 if compute.is_host() && integers.activations() != Activations::Eight => {
            Some(EIGHT_BITS_IN_GROUPS)
        }
        Weights::Int8 => Some(EIGHT_BITS),
        Weights::Int4 => Some(FOUR_BITS),
    }
}
