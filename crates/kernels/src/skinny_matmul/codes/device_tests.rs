//! Products with codes on a GPU against the definition.

use super::super::is_supported;
use super::*;
use crate::device::tests::{device, tensor, value, values_of};
use crate::quantised_matmul::ScaleFormat;
use burn::tensor::{DType, Device, Tensor};
use half::{bf16, f16};

/// A matrix with `group` inputs to a scale, and its codes one a byte.
fn codes(bits: CodeBits, d_in: usize, d_out: usize, group: usize) -> (Codes, Vec<u8>) {
    let scale_format = if bits == CodeBits::Four { ScaleFormat::F16 } else { ScaleFormat::F32 };
    let groups = d_in.div_ceil(group);
    let scales = (0..d_out * groups).map(|i| scale_format.round(0.01 + value(i * 7).abs() / 50.0)).collect();
    // Every code occurs, the lowest included.
    let values = (0..d_in * d_out).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8);
    let values = values.map(|code| if bits == CodeBits::Four { code & 15 } else { code }).collect();
    (Codes { d_in, d_out, bits, group, scales, scale_format, zeros: None, order: None, numbers: None }, values)
}

fn inputs(size: usize, dtype: DType) -> Vec<f32> {
    let round = |value: f32| match dtype {
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => f16::from_f32(value).to_f32(),
    };
    (0..size).map(|i| round(value(i * 31 + 1))).collect()
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
fn rows_are_independent((codes, values): (Codes, Vec<u8>), dtype: DType, counts: &[usize]) {
    let Some(device) = supported(dtype) else { return };
    let (d_in, most) = (codes.d_in, counts.iter().copied().max().unwrap());
    let fragments = CodedFragments::new(&codes, &values, dtype, &device);
    let x = inputs(most * d_in, dtype);
    let want = reference::product(&x, &codes, &values);
    let scale = codes.scales.iter().fold(0f32, |a, &b| a.max(b)) * f32::from(codes.bits.middle());
    let mut first = vec![];
    for &n in counts {
        let rows: Tensor<3> = tensor(x[..n * d_in].to_vec(), [1, n, d_in], &device).cast(dtype);
        let y = values_of(fragments.matmul(&rows));
        for (i, (y, want)) in y.iter().zip(&want).enumerate() {
            // The result is rounded to 16 bits; sums differ by their order.
            let tolerance = 0.005 * want.abs() + 1e-5 * scale * d_in as f32;
            assert!((y - want).abs() <= tolerance, "{n} rows, {i}: {y} and not {want}");
        }
        let same = y.iter().zip(&first).all(|(a, b): (&f32, &f32)| a.to_bits() == b.to_bits());
        assert!(same, "{n} rows of {d_in} × {}", codes.d_out);
        if y.len() > first.len() {
            first = y;
        }
    }
}

#[test]
fn eight_bits_with_a_scale_for_each_output() {
    rows_are_independent(codes(CodeBits::Eight, 544, 40, 544), DType::BF16, &[1, 2, 7, 8, 9, 33, 64]);
}

#[test]
fn four_bits_in_groups_of_32() {
    rows_are_independent(codes(CodeBits::Four, 544, 40, 32), DType::BF16, &[1, 2, 7, 8, 9, 33, 64]);
}

/// The last group is shorter, and K is in two parts.
#[test]
fn four_bits_in_groups_of_128() {
    rows_are_independent(codes(CodeBits::Four, 544, 33, 128), DType::BF16, &[1, 9, 64]);
}

#[test]
fn eight_bits_in_groups_and_f16() {
    rows_are_independent(codes(CodeBits::Eight, 256, 33, 64), DType::F16, &[1, 9]);
    rows_are_independent(codes(CodeBits::Four, 64, 300, 64), DType::F16, &[3, 20]);
}

/// Every code of both sizes becomes its number, and more rows than fragments are for take the plain matrix.
#[test]
fn plain_matrices_are_code_times_scale() {
    let Some(device) = supported(DType::BF16) else { return };
    for (bits, group) in [(CodeBits::Eight, 64), (CodeBits::Four, 32)] {
        let (codes, values) = codes(bits, 64, 37, group);
        let fragments = CodedFragments::new(&codes, &values, DType::BF16, &device);
        let scales = |i: usize| codes.scales[i / 64 * codes.groups() + i % 64 / group];
        let number = |(i, &code): (usize, &u8)| (f32::from(code) - f32::from(bits.middle())) * scales(i);
        let want: Vec<f32> = values.iter().enumerate().map(number).map(|w| bf16::from_f32(w).to_f32()).collect();
        assert_eq!(values_of(fragments.plain()), want);
        let x = inputs(300 * 64, DType::BF16);
        let y = values_of(fragments.matmul(&tensor(x.clone(), [1, 300, 64], &device).cast(DType::BF16)));
        let product = super::super::reference::product(64, &x, &want);
        assert!(y.iter().zip(&product).all(|(y, want)| (y - want).abs() <= 0.01 * want.abs() + 0.05));
    }
}
