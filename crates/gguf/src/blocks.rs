//! Blocks of codes, as ggml lays them out.
//!
//! A number is `scale · (code - zero)`, or `scale · code + minimum` where a type has minima, computed in `f32` with each
//! operation rounded. Scales of the K types are themselves products, `d · s` with `d` in half precision and a whole `s`.
//! This is what the `gguf` package's own dequantiser computes, bit for bit.

use crate::kind::Kind;
use half::f16;

/// How codes of a type are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// Bits of a code.
    pub bits: u32,
    /// Code of the number zero, where there are no minima.
    pub zero: u8,
    /// Neighbouring numbers that share a scale.
    pub group: usize,
    /// Whether numbers have minima.
    pub has_minima: bool,
    /// Whether scales are stored in half precision; else they are products.
    pub half_scales: bool,
}

/// The coding of a type; `None` for types without codes.
pub fn coding(kind: Kind) -> Option<Coding> {
    let coding = |bits, zero, group, has_minima, half_scales| Coding { bits, zero, group, has_minima, half_scales };
    Some(match kind {
        Kind::F32 | Kind::F16 | Kind::Bf16 => return None,
        Kind::Q4_0 => coding(4, 8, 32, false, true),
        Kind::Q4_1 => coding(4, 0, 32, true, true),
        Kind::Q5_0 => coding(5, 16, 32, false, true),
        Kind::Q5_1 => coding(5, 0, 32, true, true),
        Kind::Q8_0 => coding(8, 128, 32, false, true),
        Kind::Q4K => coding(4, 0, 32, true, false),
        Kind::Q5K => coding(5, 0, 32, true, false),
        Kind::Q6K => coding(6, 32, 16, false, false),
    })
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Bytes of half-precision scales and minima before the codes of a type with blocks of 32.
fn head(kind: Kind) -> usize {
    if matches!(kind, Kind::Q4_1 | Kind::Q5_1) { 4 } else { 2 }
}

/// Scale and minimum of a group of a block; the minimum is zero where there are none.
fn scale(kind: Kind, block: &[u8], group: usize) -> (f32, f32) {
    let d = |at| half_at(block, at);
    match kind {
        Kind::Q6K => (d(208) * f32::from(block[192 + group] as i8), 0.0),
        Kind::Q4K | Kind::Q5K => {
            let [s, m] = six_bits(&block[4..16], group);
            (d(0) * f32::from(s), -(d(2) * f32::from(m)))
        }
        Kind::Q4_1 | Kind::Q5_1 => (d(0), d(2)),
        _ => (d(0), 0.0),
    }
}

/// Scale and minimum number `group` of eight, six bits each in 12 bytes: the first four of both in their own bytes, the
/// last four in the nibbles of the last bytes and the top bits of the first ones.
fn six_bits(packed: &[u8], group: usize) -> [u8; 2] {
    if group < 4 {
        return [packed[group] & 63, packed[group + 4] & 63];
    }
    let low = packed[group + 4];
    [(low & 15) | (packed[group - 4] >> 2 & 48), (low >> 4) | (packed[group] >> 2 & 48)]
}

/// Writes the scales of blocks, and the minima where there are some; one for each group.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn scales(kind: Kind, bytes: &[u8], scales: &mut [f32], mut minima: Option<&mut [f32]>) {
    let Some(Coding { group, .. }) = coding(kind) else { return };
    let groups = kind.block() / group;
    for (i, block) in bytes.chunks_exact(kind.block_bytes()).enumerate() {
        for g in 0..groups {
            let (one, minimum) = scale(kind, block, g);
            scales[i * groups + g] = one;
            if let Some(minima) = minima.as_deref_mut() {
                minima[i * groups + g] = minimum;
            }
        }
    }
}

/// Writes the codes of blocks, one a byte.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn codes(kind: Kind, bytes: &[u8], out: &mut [u8]) {
    for (block, out) in bytes.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(kind.block())) {
        match kind {
            Kind::F32 | Kind::F16 | Kind::Bf16 => {}
            Kind::Q8_0 => out.iter_mut().zip(&block[2..]).for_each(|(out, byte)| *out = byte ^ 0x80),
            Kind::Q4_0 | Kind::Q4_1 => nibbles(&block[head(kind)..], out),
            Kind::Q5_0 | Kind::Q5_1 => {
                let (high, low) = block[head(kind)..].split_at(4);
                nibbles(low, out);
                out.iter_mut().enumerate().for_each(|(i, out)| *out |= (high[i / 8] >> (i % 8) & 1) << 4);
            }
            Kind::Q4K => {
                let lines = block[16..].chunks_exact(32).zip(out.chunks_exact_mut(64));
                lines.for_each(|(bytes, out)| nibbles(bytes, out));
            }
            Kind::Q5K => {
                let (high, low) = block[16..].split_at(32);
                low.chunks_exact(32).zip(out.chunks_exact_mut(64)).for_each(|(bytes, out)| nibbles(bytes, out));
                out.iter_mut().enumerate().for_each(|(i, out)| *out |= (high[i % 32] >> (i / 32) & 1) << 4);
            }
            Kind::Q6K => {
                let (low, high) = block.split_at(128);
                low.chunks_exact(64).zip(out.chunks_exact_mut(128)).for_each(|(bytes, out)| nibbles(bytes, out));
                for (i, out) in out.iter_mut().enumerate() {
                    *out |= (high[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) << 4;
                }
            }
        }
    }
}

/// The low nibbles of all bytes, then the high ones.
fn nibbles(bytes: &[u8], out: &mut [u8]) {
    let (low, high) = out.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
}

/// Writes the numbers of blocks.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn dequantise(kind: Kind, bytes: &[u8], out: &mut [f32]) {
    let Some(Coding { zero, group, has_minima, .. }) = coding(kind) else { return };
    let mut block_codes = [0u8; 256];
    let block_codes = &mut block_codes[..kind.block()];
    for (block, out) in bytes.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(kind.block())) {
        codes(kind, block, block_codes);
        for (g, (out, codes)) in out.chunks_exact_mut(group).zip(block_codes.chunks_exact(group)).enumerate() {
            let (scale, minimum) = scale(kind, block, g);
            for (out, &code) in out.iter_mut().zip(codes) {
                let product = scale * (f32::from(code) - f32::from(zero));
                *out = if has_minima { product + minimum } else { product };
            }
        }
    }
}
