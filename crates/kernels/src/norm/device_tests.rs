//! Norms of sums on a GPU against the definition, and against the same work in several launches.

use super::{add_rms_norm, reference, rms_norm};
use crate::device::tests::{device, tensor, value, values_of};
use crate::partial_sums::PartialSums;
use crate::partial_sums::device_tests::{formats, parts};
use burn::tensor::{DType, Device, Tensor};

const EPS: f32 = 1e-5;

fn numbers(size: usize, salt: usize, round: fn(f32) -> f32) -> Vec<f32> {
    (0..size).map(|i| round(value(i * 7 + salt))).collect()
}

/// `x + Σ sums` and its norm, in one launch.
fn fused(x: &[f32], sums: &[f32], w: &[f32], dtype: DType, device: &Device) -> [Vec<f32>; 2] {
    let shape = [1, x.len() / w.len(), w.len()];
    let x = tensor(x.to_vec(), shape, device).cast(dtype);
    let w = tensor(w.to_vec(), [w.len()], device);
    let (sum, normed) = add_rms_norm(x, parts(sums, shape, dtype, device), &w, EPS);
    [values_of(sum), values_of(normed)]
}

/// The launches that it stands for.
fn apart(x: &[f32], sums: &[f32], w: &[f32], dtype: DType, device: &Device) -> [Vec<f32>; 2] {
    let shape = [1, x.len() / w.len(), w.len()];
    let x: Tensor<3> = tensor(x.to_vec(), shape, device).cast(dtype);
    let sum = x + parts(sums, shape, dtype, device).sum();
    let normed = rms_norm(&sum, &tensor(w.to_vec(), [w.len()], device), EPS);
    [values_of(sum), values_of(normed)]
}

/// The first `rows` rows of each part.
fn first_rows(sums: &[f32], size: usize, rows: usize, d: usize) -> Vec<f32> {
    sums.chunks_exact(size).flat_map(|part| part[..rows * d].to_vec()).collect()
}

/// One launch has the bits of several, and a row those that it has alone.
#[test]
fn a_sum_is_normed_as_in_several_launches_and_in_any_company() {
    let Some(device) = device() else { return };
    for (dtype, round) in formats(&device) {
        for (d, count) in [(32, 2), (200, 3), (1030, 8), (2048, 5)] {
            let (rows, w) = (5, numbers(d, 3, |x| x));
            let (x, sums) = (numbers(rows * d, 1, round), numbers(count * rows * d, 2, |x| x));
            let all = fused(&x, &sums, &w, dtype, &device);
            assert_eq!(all, apart(&x, &sums, &w, dtype, &device), "{dtype:?}, {d} numbers in {count} parts");
            for some in [1, 3] {
                let few = fused(&x[..some * d], &first_rows(&sums, rows * d, some, d), &w, dtype, &device);
                few.iter().zip(&all).for_each(|(few, all)| assert_eq!(few[..], all[..some * d]));
            }
        }
    }
}

#[test]
fn rows_are_normed_as_defined() {
    let Some(device) = device() else { return };
    for (dtype, round) in formats(&device) {
        let limit = if dtype == DType::F32 { 1e-5 } else { 1.0 / 128.0 };
        // The last row has more numbers than one cube's units have registers for.
        for d in [1, 33, 320, 4096, 20_000] {
            let (x, y, w) = (numbers(2 * d, 1, round), numbers(2 * d, 2, round), numbers(d, 3, |x| x));
            let of = |values: &[f32]| tensor(values.to_vec(), [1, 2, d], &device).cast(dtype);
            let weights = tensor(w.clone(), [d], &device);
            let alone = values_of(rms_norm(&of(&x), &weights, EPS));
            let (sum, normed) = add_rms_norm(of(&x), PartialSums::whole(of(&y)), &weights, EPS);
            let (sum, normed) = (values_of(sum), values_of(normed));
            let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| round(x + y)).collect();
            assert_eq!(sum, want);
            for (got, of) in [(alone, x), (normed, want)] {
                let want = of.chunks_exact(d).flat_map(|row| reference::rms_norm(row, &w, f64::from(EPS)));
                let mut each = got.iter().zip(want);
                assert!(each.all(|(a, b)| (f64::from(*a) - b).abs() <= limit * b.abs().max(1.0)), "{dtype:?}, {d}");
            }
        }
    }
}
