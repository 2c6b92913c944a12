//! Products on a GPU against the definition.

use super::*;
use crate::device::tests::{device, tensor, value, values_of};
use burn::tensor::{DType, Device, Tensor};
use half::{bf16, f16};

/// Numbers that a format holds, and their bits.
fn numbers(size: usize, seed: usize, dtype: DType) -> (Vec<f32>, Vec<u16>) {
    let round = |value: f32| match dtype {
        DType::BF16 => (bf16::from_f32(value).to_f32(), bf16::from_f32(value).to_bits()),
        _ => (f16::from_f32(value).to_f32(), f16::from_f32(value).to_bits()),
    };
    (0..size).map(|i| round(value(i * 31 + seed))).unzip()
}

fn supported(dtype: DType) -> Option<Device> {
    let device = device()?;
    if !is_supported(64, 64, dtype, &device) {
        eprintln!("SKIPPED: the device has no mma.sync of {dtype:?}");
        return None;
    }
    Some(device)
}

/// Compares products of the first `n` rows with the definition and, bit for bit, with those of the other counts.
fn rows_are_independent(d_in: usize, d_out: usize, dtype: DType, counts: &[usize]) {
    let Some(device) = supported(dtype) else { return };
    let most = counts.iter().copied().max().unwrap();
    let (x, _) = numbers(most * d_in, 1, dtype);
    let (weights, bits) = numbers(d_out * d_in, 2, dtype);
    let fragments = Fragments::new(d_in, &bits, dtype, &device);
    assert_eq!(values_of(fragments.plain()), weights);
    let want = reference::product(d_in, &x, &weights);
    let mut first = vec![];
    for &n in counts {
        let rows: Tensor<3> = tensor(x[..n * d_in].to_vec(), [1, n, d_in], &device).cast(dtype);
        let y = values_of(fragments.matmul(&rows));
        for (i, (y, want)) in y.iter().zip(&want).enumerate() {
            let tolerance = 0.005 * want.abs() + 0.0005 * d_in as f32;
            assert!((y - want).abs() <= tolerance, "{n} rows, {i}: {y} and not {want}");
        }
        let same = y.iter().zip(&first).all(|(a, b): (&f32, &f32)| a.to_bits() == b.to_bits());
        assert!(same, "{n} rows of {d_in} × {d_out}");
        if y.len() > first.len() {
            first = y;
        }
    }
}

#[test]
fn rows_do_not_depend_on_their_number() {
    rows_are_independent(544, 40, DType::BF16, &[1, 2, 7, 8, 9, 33, 64, 65, 200]);
}

#[test]
fn rows_do_not_depend_on_their_number_in_f16() {
    rows_are_independent(64, 33, DType::F16, &[1, 9, 64]);
}

#[test]
fn outputs_of_several_cubes_are_found() {
    rows_are_independent(512, 300, DType::BF16, &[3, 20]);
}

/// More rows than fragments are for.
#[test]
fn many_rows_take_the_plain_matrix() {
    let Some(device) = supported(DType::BF16) else { return };
    let (x, _) = numbers(300 * 32, 3, DType::BF16);
    let (weights, bits) = numbers(8 * 32, 4, DType::BF16);
    let fragments = Fragments::new(32, &bits, DType::BF16, &device);
    let y = values_of(fragments.matmul(&tensor(x.clone(), [1, 300, 32], &device).cast(DType::BF16)));
    let want = reference::product(32, &x, &weights);
    assert!(y.iter().zip(&want).all(|(y, want)| (y - want).abs() <= 0.01 * want.abs() + 0.02));
}

#[test]
fn odd_inputs_have_no_fragments() {
    assert!(!fits(48, 32) && !fits(0, 32) && fits(32, 1));
}
