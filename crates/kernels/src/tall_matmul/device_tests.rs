//! Tall products on a GPU against the definition.

use super::*;
use crate::device::tests::{device, has_bf16, rounded, tensor, value, values_of};

/// The product that fails without parts, its factors read once more, and one that is not tall.
#[test]
fn tall_products_of_a_gpu_are_those_of_the_definition() {
    let Some(device) = device() else { return };
    if !has_bf16(&device) {
        return;
    }
    let (rows, depth, columns) = (1024, 96, 64);
    let numbers = |n: usize, seed: usize| rounded(&(0..n).map(|i| value(i * 7 + seed)).collect::<Vec<f32>>());
    let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
    let of = |values: &[f32], shape| tensor(values.to_vec(), shape, &device).cast(DType::BF16);
    let (left, right) = (of(&a, [rows, depth]), of(&b, [depth, columns]));
    for _ in 0..2 {
        let got = values_of(matmul(left.clone(), right.clone()));
        for (i, got) in got.into_iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let want: f32 = (0..depth).map(|k| a[row * depth + k] * b[k * columns + column]).sum();
            assert!((got - want).abs() <= 0.01 * (1.0 + want.abs()), "{row} {column}: {got} {want}");
        }
    }
    assert_eq!(values_of(left), a);
}
