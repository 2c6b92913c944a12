//! Products of pairs of 16-bit numbers with sums in 32 bits: twice the multiply-adds per instruction.
//!
//! `y = Σ_j (x[2j] · w[2j] + x[2j + 1] · w[2j + 1])` with `x` and `w` rounded to `bf16`, by the processor's dot-product
//! instruction, which rounds each of its two sums and takes subnormal numbers for zero. Like all products here, a row's
//! sums are one chain in increasing order, whatever the rows beside it.

use super::PANEL;
use super::element::{Bits, Element};
use half::bf16;

/// Two neighbouring inputs' numbers in 32 bits, the first one in the lower half.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Pair(u32);

impl Bits for Pair {}
/// Of numbers whose bits are those of a pair.
impl Element for Pair {
    fn widen(self) -> f32 {
        f32::from_bits(self.0)
    }
    fn narrow_row(values: &[f32; PANEL], out: &mut [Self]) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = Self(value.to_bits());
        }
    }
    fn clips(_: f32) -> bool {
        false
    }
}

fn pair_of(low: f32, high: f32) -> u32 {
    u32::from(bf16::from_f32(low).to_bits()) | u32::from(bf16::from_f32(high).to_bits()) << 16
}

/// Rows `[.., d_in]` as pairs `[.., ceil(d_in / 2)]`, in the place of 32-bit numbers.
pub(super) fn as_pairs(rows: &[f32], d_in: usize) -> Vec<f32> {
    let pair = |pair: &[f32]| f32::from_bits(pair_of(pair[0], pair.get(1).copied().unwrap_or(0.0)));
    rows.chunks_exact(d_in).flat_map(|row| row.chunks(2).map(pair)).collect()
}

/// `x [rows, d_in]` as pairs `[rows, ceil(d_in / 2)]`, in the place of 32-bit numbers.
///
/// # Safety
/// The processor has AVX-512 F and BF16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn pair_rows(x: &[f32], d_in: usize, out: &mut Vec<f32>) {
    use std::arch::x86_64::*;
    let width = d_in.div_ceil(2);
    let size = x.len() / d_in * width;
    if out.len() < size {
        out.resize(size, 0.0);
    }
    for (row, out) in x.chunks_exact(d_in).zip(out.chunks_exact_mut(width)) {
        let (blocks, rest) = row.as_chunks::<32>();
        let (whole, last) = out.split_at_mut(blocks.len() * 16);
        for (block, out) in blocks.iter().zip(whole.as_chunks_mut::<16>().0) {
            // SAFETY: 32 values are read and 16 pairs written.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(block.as_ptr()), _mm512_loadu_ps(block.as_ptr().add(16)));
                let pairs: __m512bh = _mm512_cvtne2ps_pbh(high, low);
                out.as_mut_ptr().cast::<__m512bh>().write_unaligned(pairs);
            }
        }
        for (out, pair) in last.iter_mut().zip(rest.chunks(2)) {
            *out = f32::from_bits(pair_of(pair[0], pair.get(1).copied().unwrap_or(0.0)));
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
