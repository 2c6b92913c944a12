//! Tests of `squares`.

use super::*;

pub(super) fn check(device: &burn::tensor::Device) {
    for n in [1usize, 2, 3, 255, 1000, (1 << 19) + 3, 704_512] {
        let values: Vec<f32> = (0..n).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect();
        let want: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let data = burn::tensor::TensorData::new(values, [n]);
        let found = f64::from(sum_of_squares(&Tensor::from_data(data, device)).into_scalar::<f32>());
        assert!((found - want).abs() < 1e-5 * want, "{n}: {found} and {want}");
    }
}

#[test]
fn all_values_count() {
    check(&burn::tensor::Device::flex());
}
