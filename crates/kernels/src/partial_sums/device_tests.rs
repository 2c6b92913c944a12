//! Sums of parts on a GPU against the definition.

use super::{PartialSums, reference};
use crate::device::tests::{device, flat, has_bf16, tensor, value, values_of};
use burn::tensor::{DType, Device, Tensor};
use half::bf16;

/// Parts of a product with these numbers.
pub(crate) fn parts(sums: &[f32], shape: [usize; 3], dtype: DType, device: &Device) -> PartialSums {
    let size = shape.iter().product::<usize>();
    let dims = [sums.len() / size, shape[0] * shape[1], shape[2]];
    PartialSums::of_parts(flat(sums.to_vec(), dims, device), shape, dtype)
}

/// A value in a number format.
pub(crate) type Round = fn(f32) -> f32;

/// The number formats that the device computes in, with their rounding.
pub(crate) fn formats(device: &Device) -> Vec<(DType, Round)> {
    let exact: Round = |x| x;
    let nearest: Round = |x| bf16::from_f32(x).to_f32();
    let in_bf16 = has_bf16(device).then_some((DType::BF16, nearest));
    std::iter::once((DType::F32, exact)).chain(in_bf16).collect()
}

#[test]
fn parts_are_added_in_their_order() {
    let Some(device) = device() else { return };
    for (dtype, round) in formats(&device) {
        for (count, shape) in [(2, [1, 3, 40]), (7, [2, 1, 300])] {
            let size = shape.iter().product::<usize>();
            let sums: Vec<f32> = (0..count * size).map(|i| value(i * 3 + 1) / 3.0).collect();
            let want = reference::sum(&sums, size, round);
            assert_eq!(values_of(parts(&sums, shape, dtype, &device).sum()), want);
            let x: Vec<f32> = (0..size).map(|i| round(value(i * 5 + 2))).collect();
            let on = tensor(x.clone(), shape, &device).cast(dtype);
            let want: Vec<f32> = want.iter().zip(&x).map(|(sum, x)| round(sum + x)).collect();
            assert_eq!(values_of(parts(&sums, shape, dtype, &device).added_to(on)), want);
        }
    }
}

#[test]
fn a_whole_product_stays_as_it_is() {
    let Some(device) = device() else { return };
    let values: Vec<f32> = (0..60).map(value).collect();
    let product: Tensor<3> = tensor(values.clone(), [2, 3, 10], &device);
    assert_eq!(values_of(PartialSums::whole(product.clone()).sum()), values);
    let twice: Vec<f32> = values.iter().map(|x| x + x).collect();
    assert_eq!(values_of(PartialSums::whole(product.clone()).added_to(product)), twice);
}
