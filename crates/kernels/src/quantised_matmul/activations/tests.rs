//! Tests of rounded inputs.

use super::super::{CodeBits, Codes, ScaleFormat};
use super::*;

fn matrix(d_in: usize, group: usize) -> QuantisedMatrix {
    let groups = d_in.div_ceil(group);
    let codes = Codes {
        d_in,
        d_out: 1,
        bits: CodeBits::Eight,
        group,
        scales: vec![1.0; groups],
        scale_format: ScaleFormat::F32,
        zeros: None,
        order: None,
        numbers: None,
    };
    QuantisedMatrix::pack(codes, &(&vec![128u8; d_in][..], d_in)).unwrap()
}

#[test]
fn parts_add_up_to_the_rounded_input() {
    let (d_in, rows) = (20, 9);
    let x: Vec<f32> = (0..rows * d_in).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
    let w = matrix(d_in, 8);
    for activations in [Activations::Eight, Activations::Sixteen] {
        let mut rounded = IntegerRows::default();
        rounded.set(crate::Isa::detect(), &x, &w, activations, false);
        let mut seen = 0;
        for tile in 0..rounded.tiles() {
            let tile = rounded.tile(tile);
            for row in 0..tile.rows {
                for place in 0..d_in {
                    let byte = |part: usize| {
                        let word = tile.words[place / 4 * tile.rows * tile.parts + part * tile.rows + row];
                        i32::from(word.to_le_bytes()[place % 4] as i8)
                    };
                    let whole = if tile.parts == 2 { 255 * byte(0) + byte(1) } else { byte(0) };
                    let scale = tile.scales[row * 3 + place / 8];
                    let want = x[(tile.first + row) * d_in + place];
                    assert!((whole as f32 * scale - want).abs() <= scale * 0.5001, "{activations:?}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, x.len());
    }
}

#[test]
fn a_row_that_is_not_finite_has_no_finite_scale() {
    let w = matrix(16, 16);
    let mut x = vec![1f32; 16];
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        x[3] = odd;
        let mut rounded = IntegerRows::default();
        rounded.set(crate::Isa::detect(), &x, &w, Activations::Eight, false);
        assert!(rounded.tile(0).scales[0].is_nan());
    }
    let mut rounded = IntegerRows::default();
    rounded.set(
        crate::Isa::detect(),
        &[0.0, f32::MIN_POSITIVE / 2.0, 0.0, 0.0].repeat(4),
        &w,
        Activations::Sixteen,
        false,
    );
    assert_eq!(rounded.tile(0).scales[0], 0.0);
}
