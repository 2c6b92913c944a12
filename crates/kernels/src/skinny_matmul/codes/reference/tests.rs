//! Places of codes and scales, and the product against dequantised weights.

use super::super::{holds, parts};
use super::*;
use crate::quantised_matmul::ScaleFormat;

fn codes(bits: CodeBits, d_in: usize, d_out: usize, group: usize) -> (Codes, Vec<u8>) {
    let groups = d_in.div_ceil(group);
    let scales = (0..d_out * groups).map(|i| (1 + i % 5) as f32 / 64.0).collect();
    let values = (0..d_in * d_out).map(|i| ((i * 37 + 11) % (1 << bits.bits())) as u8).collect();
    let scale_format = ScaleFormat::F16;
    (Codes { d_in, d_out, bits, group, scales, scale_format, zeros: None, order: None, numbers: None }, values)
}

#[test]
fn every_code_has_a_place_of_its_own() {
    for bits in [CodeBits::Eight, CodeBits::Four] {
        let (d_in, d_out) = (96, 64);
        let mut seen = vec![false; code_bytes(bits, d_in, d_out) * 2];
        for output in 0..d_out {
            for input in 0..d_in {
                let (byte, shift) = code_place(bits, d_in, output, input);
                assert!(!std::mem::replace(&mut seen[byte * 2 + shift / 4], true), "{output}, {input}");
            }
        }
        assert_eq!(seen.iter().filter(|&&seen| seen).count(), d_in * d_out);
    }
}

#[test]
fn packed_codes_are_read_back() {
    for bits in [CodeBits::Eight, CodeBits::Four] {
        let (codes, values) = codes(bits, 64, 33, 32);
        let size = code_bytes(bits, 64, 32);
        let mut packed = vec![1; code_bytes(bits, 64, 33)];
        for (group, packed) in packed.chunks_exact_mut(size).enumerate() {
            pack(bits, 64, &values, group, packed);
        }
        let mask = if bits == CodeBits::Four { 15 } else { 255 };
        for (i, &value) in values.iter().enumerate() {
            let (byte, shift) = code_place(bits, 64, i / 64, i % 64);
            assert_eq!((packed[byte] >> shift & mask) ^ bits.middle(), value);
        }
        // Columns of padding are zero.
        let code = |input| code_place(bits, 64, 40, input);
        assert!((0..64).map(code).all(|(byte, shift)| packed[byte] >> shift & mask == 0));
        let scales = pack_scales(&codes);
        assert_eq!(scales[scale_place(2, 32, 1)], codes.scales[65]);
        assert_eq!(scales.len(), 128);
    }
}

#[test]
fn products_are_those_of_dequantised_weights() {
    for (bits, group) in [(CodeBits::Eight, 544), (CodeBits::Four, 32), (CodeBits::Four, 128)] {
        let (codes, values) = codes(bits, 544, 5, group);
        assert!(holds(&codes));
        let x: Vec<f32> = (0..2 * 544).map(|i| (i % 9) as f32 - 4.0).collect();
        let want = crate::quantised_matmul::reference::exact(&x, &codes, &values);
        for (y, want) in product(&x, &codes, &values).iter().zip(want) {
            assert!((y - want).abs() < 1e-2 * want.abs().max(1.0), "{y} and not {want}");
        }
    }
}

#[test]
fn codes_of_other_kinds_have_no_fragments() {
    let (plain, _) = codes(CodeBits::Four, 64, 4, 32);
    assert!(holds(&plain));
    let zeros = Some(vec![7; plain.scales.len()]);
    assert!(!holds(&Codes { zeros, ..plain.clone() }));
    assert!(!holds(&Codes { order: Some((0..64).rev().collect()), ..plain.clone() }));
    assert!(!holds(&Codes { numbers: Some(std::sync::Arc::new([0.0; 256])), ..plain }));
    assert!(!holds(&codes(CodeBits::Four, 64, 4, 16).0) && !holds(&codes(CodeBits::Eight, 48, 4, 48).0));
}

#[test]
fn parts_cover_all_inputs() {
    for bits in [CodeBits::Eight, CodeBits::Four] {
        for (d_in, d_out) in [(32, 32), (4096, 12_288), (4096, 4096), (11_008, 4096), (96, 64), (544, 40)] {
            let (whole, parts) = (part_blocks(bits, d_in, d_out) * INPUTS, parts(bits, d_in, d_out));
            assert!(whole * parts >= d_in && whole * (parts - 1) < d_in, "{d_in} × {d_out}");
        }
    }
}
