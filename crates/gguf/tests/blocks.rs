//! Numbers of blocks against those of the `gguf` package (`scripts/make_gguf_fixtures.py blocks`), bit for bit.

use gorgon_gguf::blocks::{codes, coding, dequantise, scales};
use gorgon_gguf::kind::Kind;
use serde_json::Value;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Each type with its blocks and the bits of its numbers.
fn fixtures() -> Vec<(Kind, Vec<u8>, Vec<u32>)> {
    let document: Value = serde_json::from_str(include_str!("fixtures/blocks.json")).unwrap();
    let one = |(name, row): (&String, &Value)| {
        let part = |key: &str| bytes(row[key].as_str().unwrap());
        let bits = part("numbers").chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        (Kind::of_name(name).unwrap(), part("blocks"), bits)
    };
    document.as_object().unwrap().iter().map(one).collect()
}

#[test]
fn numbers_equal_the_packages_bit_for_bit() {
    let fixtures = fixtures();
    assert_eq!(fixtures.len(), Kind::blocks().count());
    for (kind, blocks, bits) in fixtures {
        let mut numbers = vec![0f32; bits.len()];
        dequantise(kind, &blocks, &mut numbers);
        for (at, (number, bits)) in numbers.iter().zip(&bits).enumerate() {
            assert_eq!(number.to_bits(), *bits, "{kind:?}: number {at} is {number}, not {}", f32::from_bits(*bits));
        }
    }
}

#[test]
fn codes_and_scales_make_the_same_numbers() {
    for (kind, blocks, bits) in fixtures() {
        let coding = coding(kind).unwrap();
        let groups = bits.len() / coding.group;
        let (mut all, mut minima, mut list) = (vec![0f32; groups], vec![0f32; groups], vec![0u8; bits.len()]);
        scales(kind, &blocks, &mut all, Some(&mut minima));
        codes(kind, &blocks, &mut list);
        for (at, (&code, &bits)) in list.iter().zip(&bits).enumerate() {
            assert!(u32::from(code) < 1 << coding.bits, "{kind:?}");
            let group = at / coding.group;
            let product = all[group] * (f32::from(code) - f32::from(coding.zero));
            let number = if coding.has_minima { product + minima[group] } else { product };
            assert_eq!(number.to_bits(), bits, "{kind:?}: number {at}");
        }
    }
}
