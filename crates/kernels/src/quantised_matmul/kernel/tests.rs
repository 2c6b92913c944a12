//! Every instruction set against the definition.

use super::super::{CodeBits, Codes, Numbers, ScaleFormat, reference};
use super::*;
use std::sync::Arc;

fn random(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state >> 8
    }
}

fn inputs(n: usize, seed: u32) -> Vec<f32> {
    let mut next = random(seed);
    (0..n).map(|_| next() as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Sizes of a case.
#[derive(Clone, Copy, Debug)]
struct Case {
    d_in: usize,
    d_out: usize,
    group: usize,
    bits: CodeBits,
    zeros: bool,
    order: bool,
    format: ScaleFormat,
}

impl Case {
    fn codes(self) -> (Codes, Vec<u8>) {
        let Case { d_in, d_out, group, bits, zeros, order, format } = self;
        let mut next = random((d_in * d_out + group) as u32);
        let count = d_out * d_in.div_ceil(group);
        let scale = |next: &mut dyn FnMut() -> u32| format.round((next() % 2000) as f32 / 1e4 - 0.1);
        let scales = (0..count).map(|_| scale(&mut next)).collect();
        let most = (2 << (bits.bits() - 1)) as u32;
        let zeros = zeros.then(|| (0..count).map(|_| (next() % most) as u8).collect());
        let values = (0..d_out * d_in).map(|_| (next() % most) as u8).collect();
        let mut places: Vec<u32> = (0..d_in as u32).collect();
        places.reverse();
        places.rotate_left(d_in / 3);
        let order = order.then_some(places);
        (Codes { d_in, d_out, bits, group, scales, scale_format: format, zeros, order, numbers: None }, values)
    }
}

fn cases() -> Vec<Case> {
    let case = |d_in, d_out, group, bits, zeros, order, format| Case { d_in, d_out, group, bits, zeros, order, format };
    use CodeBits::{Eight, Four};
    use ScaleFormat::{Bf16, F16, F32};
    vec![
        case(1, 1, 1, Eight, false, false, F32),
        case(7, 33, 7, Four, true, false, F32),
        case(24, 130, 24, Eight, false, false, F32),
        case(100, 40, 32, Eight, true, false, Bf16),
        case(96, 64, 32, Four, false, false, F16),
        case(130, 70, 64, Four, true, true, Bf16),
        case(320, 50, 128, Four, false, true, F32),
        case(516, 96, 516, Eight, true, false, F32),
    ]
}

#[test]
fn every_instruction_set_equals_the_definition_bit_for_bit() {
    for case in cases() {
        let (layout, values) = case.codes();
        let w = QuantisedMatrix::pack(layout.clone(), &(&values[..], case.d_in)).unwrap();
        for rows in (1..=16).chain([28, 61]) {
            let x = inputs(rows * case.d_in, rows as u32);
            for activations in [Activations::Exact, Activations::Eight, Activations::Sixteen] {
                let want = match activations {
                    Activations::Exact => reference::exact(&x, &layout, &values),
                    _ => reference::rounded(&x, &layout, &values, activations),
                };
                for isa in Isa::available() {
                    let mut y = vec![0f32; rows * case.d_out];
                    quantised_matmul(isa, &x, &w, activations, None, &mut y);
                    assert!(y == want, "{isa:?} {activations:?} {rows} rows of {case:?}");
                }
            }
        }
    }
}

#[test]
fn exact_products_are_those_of_the_dequantised_weights() {
    for case in cases().into_iter().filter(|case| !case.order) {
        let (layout, values) = case.codes();
        let w = QuantisedMatrix::pack(layout, &(&values[..], case.d_in)).unwrap();
        let x = inputs(5 * case.d_in, 9);
        let plain =
            crate::few_row_matmul::reference::few_row_matmul(&x, &reference::dequantised(&w), case.d_in, case.d_out);
        let bias = inputs(case.d_out, 4);
        let mut y = vec![0f32; 5 * case.d_out];
        quantised_matmul(Isa::detect(), &x, &w, Activations::Exact, Some(&bias), &mut y);
        let want: Vec<f32> = plain.iter().enumerate().map(|(i, v)| v + bias[i % case.d_out]).collect();
        assert_eq!(y, want, "{case:?}");
    }
}

#[test]
fn codes_of_a_table_are_multiplied_as_the_numbers_that_they_stand_for() {
    let numbers: Numbers = Arc::new(std::array::from_fn(|code| (code as f32 - 90.0) / (code as f32 + 7.0)));
    for case in cases().into_iter().filter(|case| !case.zeros) {
        let (layout, values) = case.codes();
        let layout = Codes { numbers: Some(numbers.clone()), ..layout };
        let w = QuantisedMatrix::pack(layout.clone(), &(&values[..], case.d_in)).unwrap();
        let mut row = vec![0f32; case.d_in];
        w.copy_row(case.d_out - 1, &mut row);
        let at = layout.order.as_ref().map_or(0, |order| order[0] as usize);
        let code = values[(case.d_out - 1) * case.d_in];
        let first_scale = layout.scales[(case.d_out - 1) * layout.groups()];
        assert_eq!(row[at], first_scale * numbers[usize::from(code)], "{case:?}");
        for rows in [1, 2, 5, 16] {
            let x = inputs(rows * case.d_in, rows as u32);
            let want = reference::exact(&x, &layout, &values);
            // Integer products cannot multiply such numbers, so inputs are never rounded.
            for activations in [Activations::Exact, Activations::Eight] {
                for isa in Isa::available() {
                    let mut y = vec![0f32; rows * case.d_out];
                    quantised_matmul(isa, &x, &w, activations, None, &mut y);
                    assert!(y == want, "{isa:?} {rows} rows of {case:?}");
                }
            }
        }
    }
}

/// The value of 8 bits with a sign, 4 bits of exponent and 3 of mantissa.
fn e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let size = match exponent {
        0 => mantissa / 512.0,
        15 if bits & 7 == 7 => f32::NAN,
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if bits & 128 == 0 { size } else { -size }
}

#[test]
fn floats_of_eight_bits_are_computed_as_their_table_says() {
    let numbers: Numbers = Arc::new(std::array::from_fn(|code| e4m3(code as u8)));
    for case in cases().into_iter().filter(|case| !case.zeros && case.bits == CodeBits::Eight) {
        let (layout, mut values) = case.codes();
        let layout = Codes { numbers: Some(numbers.clone()), ..layout };
        for has_nan in [false, true] {
            // All codes occur where there is room.
            values.iter_mut().zip((0..=255u8).cycle()).for_each(|(value, code)| {
                *value = if code & 127 == 127 { if has_nan { code } else { 126 } } else { code };
            });
            let w = QuantisedMatrix::pack(layout.clone(), &(&values[..], case.d_in)).unwrap();
            for rows in [1, 2, 3, 4, 5, 6, 7] {
                let x = inputs(rows * case.d_in, rows as u32);
                let want = reference::exact(&x, &layout, &values);
                for isa in Isa::available() {
                    let mut y = vec![0f32; rows * case.d_out];
                    quantised_matmul(isa, &x, &w, Activations::Exact, None, &mut y);
                    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                    assert!(y.iter().zip(&want).all(same), "{isa:?} {rows} rows of {case:?}, NaN: {has_nan}");
                }
            }
        }
    }
}

#[test]
fn chunks_of_rows_change_no_bit() {
    let case = Case {
        d_in: 4096,
        d_out: 40,
        group: 4096,
        bits: CodeBits::Eight,
        zeros: false,
        order: false,
        format: ScaleFormat::F32,
    };
    let (layout, values) = case.codes();
    let w = QuantisedMatrix::pack(layout, &(&values[..], case.d_in)).unwrap();
    let x = inputs(150 * case.d_in, 8);
    for activations in [Activations::Eight, Activations::Sixteen] {
        let mut all = vec![0f32; 150 * case.d_out];
        quantised_matmul(Isa::detect(), &x, &w, activations, None, &mut all);
        for row in [0, 14, 127, 149] {
            let mut alone = vec![0f32; case.d_out];
            quantised_matmul(Isa::detect(), &x[row * case.d_in..][..case.d_in], &w, activations, None, &mut alone);
            assert_eq!(alone, all[row * case.d_out..][..case.d_out], "row {row}");
        }
    }
}

#[test]
fn extreme_codes_and_inputs_stay_exact() {
    // The greatest sums: codes of 255 less a zero point of 0, and all inputs alike.
    let (d_in, d_out) = (65_536, 33);
    let layout = Codes {
        d_in,
        d_out,
        bits: CodeBits::Eight,
        group: d_in,
        scales: vec![1.0; d_out],
        scale_format: ScaleFormat::F32,
        zeros: Some(vec![0; d_out]),
        order: None,
        numbers: None,
    };
    let values = vec![255u8; d_in * d_out];
    let w = QuantisedMatrix::pack(layout, &(&values[..], d_in)).unwrap();
    for sign in [1f32, -1.0] {
        let x = vec![sign; d_in];
        let want = (127i64 * 255 * d_in as i64) as f32 * (1.0 / 127.0) * sign;
        for isa in Isa::available() {
            let mut y = vec![0f32; d_out];
            quantised_matmul(isa, &x, &w, Activations::Eight, None, &mut y);
            assert_eq!(y, vec![want; d_out], "{isa:?}");
        }
    }
}

#[test]
fn inputs_that_are_not_finite_are_seen_in_the_result() {
    let (layout, values) = cases()[4].codes();
    let w = QuantisedMatrix::pack(layout, &(&values[..], 96)).unwrap();
    let mut x = inputs(2 * 96, 3);
    x[40] = f32::NAN;
    for activations in [Activations::Exact, Activations::Eight, Activations::Sixteen] {
        let mut y = vec![0f32; 2 * 64];
        quantised_matmul(Isa::detect(), &x, &w, activations, None, &mut y);
        assert!(y[..64].iter().all(|v| v.is_nan()) && y[64..].iter().all(|v| v.is_finite()), "{activations:?}");
    }
}
