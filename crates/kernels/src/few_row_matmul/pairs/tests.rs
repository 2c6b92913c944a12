//! Tests of `pairs`.

use super::super::{Packed, WeightDtype, few_row_matmul};
use super::*;
use crate::Isa;

/// A matrix in pairs; none where the processor has no such products, which it says.
fn packed(w: &[f32], d_in: usize) -> Option<Packed> {
    if !WeightDtype::Bf16Pairs.is_supported() {
        eprintln!("SKIPPED: no products of bf16 pairs here");
        return None;
    }
    Some(Packed::pack(d_in, w.len() / d_in, WeightDtype::Bf16Pairs, &(w, d_in)).unwrap())
}

fn value(i: usize) -> f32 {
    ((i * 7919) % 2003) as f32 / 1001.5 - 1.0
}

fn product(x: &[f32], packed: &Packed, bias: Option<&[f32]>) -> Vec<f32> {
    let mut y = vec![f32::NAN; x.len() / packed.d_in() * packed.d_out()];
    few_row_matmul(Isa::detect(), x, packed, bias, &mut y);
    y
}

#[test]
fn equals_the_definition_up_to_roundings_of_sums() {
    let rounded = |v: f32| f64::from(bf16::from_f32(v).to_f32());
    for (d_in, d_out) in [(1, 3), (37, 50), (64, 96), (2100, 70)] {
        let w: Vec<f32> = (0..d_in * d_out).map(|i| value(i + 5)).collect();
        let bias: Vec<f32> = (0..d_out).map(|i| value(i + 9)).collect();
        let Some(packed) = packed(&w, d_in) else { return };
        for rows in [1, 2, 3, 4, 5, 6, 7, 15, 16, 130] {
            let x: Vec<f32> = (0..rows * d_in).map(|i| value(i * 3 + 1)).collect();
            let y = product(&x, &packed, Some(&bias));
            for (row, y) in x.chunks(d_in).zip(y.chunks(d_out)) {
                for ((w, &y), &bias) in w.chunks(d_in).zip(y).zip(&bias) {
                    let products = || row.iter().zip(w).map(|(&a, &b)| rounded(a) * rounded(b));
                    let (sum, size) = (products().sum::<f64>(), products().map(f64::abs).sum::<f64>());
                    let found = f64::from(y) - f64::from(bias);
                    assert!((found - sum).abs() <= 1e-6 * size.max(1.0), "{d_in} x {d_out}: {found} {sum}");
                }
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company() {
    for (d_in, d_out) in [(90, 130), (1500, 40), (64, 96)] {
        let w: Vec<f32> = (0..d_in * d_out).map(value).collect();
        let x: Vec<f32> = (0..64 * d_in).map(|i| value(i + 77)).collect();
        let Some(packed) = packed(&w, d_in) else { return };
        let alone: Vec<f32> = x.chunks(d_in).flat_map(|row| product(row, &packed, None)).collect();
        for rows in 1..=64 {
            assert!(product(&x[..rows * d_in], &packed, None) == alone[..rows * d_out], "{rows} rows of {d_in}");
        }
    }
}

#[test]
fn rows_can_be_read_back() {
    let (d_in, d_out) = (37, 70);
    let w: Vec<f32> = (0..d_in * d_out).map(value).collect();
    let Some(packed) = packed(&w, d_in) else { return };
    let mut row = vec![0f32; d_in];
    for (r, want) in w.chunks(d_in).enumerate() {
        packed.copy_row(r, &mut row);
        assert!(row.iter().zip(want).all(|(&a, &b)| a == bf16::from_f32(b).to_f32()), "row {r}");
    }
    assert_eq!(packed.bytes(), 96 * 38 * 2);
    let error = Packed::pack(2, 1, WeightDtype::Bf16Pairs, &(&[1.0, f32::MAX][..], 2)).unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
}
