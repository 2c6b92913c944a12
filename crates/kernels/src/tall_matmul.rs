//! burn's matmul, but for tall products in 16 bits, which it cannot do on Hopper.
//!
//! Where a result has four times as many rows as columns, cubek 0.3.1 takes tiles of 32 × 8 and so stages of 512 rows.
//! Its kernels that load by TMA hand such a stage to the device as one box, which may have 256 rows: the launch fails
//! while kernels are tuned, and from then on whatever reads the factors fails too.

use crate::host::is_host;
use burn::tensor::{DType, Tensor};
use std::ops::Range;

/// `lhs · rhs`; on a GPU a tall product in 16 bits part by part.
///
/// # Shapes
/// `lhs [.., m, k]`, `rhs [.., k, n]`, result `[.., m, n]`.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn matmul<const D: usize>(lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
    let (rows, columns) = (lhs.dims()[D - 2], rhs.dims()[D - 1]);
    let narrow = matches!(lhs.dtype(), DType::F16 | DType::BF16);
    if !narrow || rows < 4 * columns || columns == 0 || is_host(&lhs.device()) {
        return lhs.matmul(rhs);
    }
    let part = |part: Range<usize>| lhs.clone().narrow(D - 2, part.start, part.len()).matmul(rhs.clone());
    Tensor::cat(parts(rows, columns).map(part).collect(), D - 2)
}

/// Parts of `rows`, each with fewer than four times as many rows as there are `columns`.
fn parts(rows: usize, columns: usize) -> impl Iterator<Item = Range<usize>> {
    let most = 4 * columns - 1;
    // Whole tiles, where a part has that many.
    let size = if most < 64 { most } else { most / 64 * 64 };
    (0..rows).step_by(size).map(move |start| start..rows.min(start + size))
}

#[cfg(all(test, feature = "gpu"))]
mod device_tests;
#[cfg(test)]
mod tests;
