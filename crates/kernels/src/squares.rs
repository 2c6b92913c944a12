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
fn check(device: &burn::tensor::Device) {
    for n in [1usize, 2, 3, 255, 1000, (1 << 19) + 3, 704_512] {
        let values: Vec<f32> = (0..n).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect();
        let want: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let data = burn::tensor::TensorData::new(values, [n]);
        let found = f64::from(sum_of_squares(&Tensor::from_data(data, device)).into_scalar::<f32>());
        assert!((found - want).abs() < 1e-5 * want, "{n}: {found} and {want}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_values_count() {
        super::check(&burn::tensor::Device::flex());
    }
}

#[cfg(all(test, feature = "gpu"))]
mod device_tests {
    #[test]
    fn all_values_count() {
        let Some(device) = crate::device::tests::device() else { return };
        super::check(&device);
    }
}
