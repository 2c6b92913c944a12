//! Sums of squares: what norms of gradients are made of.

use burn::tensor::Tensor;

/// `Σ x²`, added up in rows of about `√n` values, and those sums then: always in the same order.
///
/// A sum of all values at once is one thread's work where a device cannot add floats atomically, and in no fixed order
/// where it can; software Vulkan breaks it off after 65,536 rounds.
///
/// # Shapes
/// `x` of any size, result `[1]`.
pub fn sum_of_squares(x: &Tensor<1>) -> Tensor<1> {
    let [n] = x.dims();
    let squares = x.clone() * x.clone();
    let width = n.isqrt().next_power_of_two();
    let (rows, whole) = (n / width, n - n % width);
    let sums = squares.clone().narrow(0, 0, whole).reshape([rows, width]).sum_dim(1).reshape([1, rows]);
    let sum = sums.sum_dim(1).reshape([1]);
    match n - whole {
        0 => sum,
        rest => sum + squares.narrow(0, whole, rest).reshape([1, rest]).sum_dim(1).reshape([1]),
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, feature = "gpu"))]
mod device_tests;
