//! Products of pairs of 16-bit numbers with sums in 32 bits: twice the multiply-adds per instruction.
//!
//! `y = Σ_j (x[2j] · w[2j] + x[2j + 1] · w[2j + 1])` with `x` and `w` rounded to `bf16`, by the processor's dot-product
//! instruction, which rounds each of its two sums and takes subnormal numbers for zero. Like all products here, a row's
//! sums are one chain in increasing order, whatever the rows beside it.

use super::PANEL;
use super::element::{Bits, Element};
#[cfg(target_arch = "x86_64")]
use super::{Packed, kernel};
use half::bf16;

/// Two neighbouring inputs' numbers in 32 bits, the first one in the lower half.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Pair(u32);

impl Bits for Pair {}
/// Of numbers whose bits are those of a pair.
impl Element for Pair {
    fn extend_reservation(self) -> f32 {
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

/// `y = x · W + bias` for any number of rows, with weights in pairs; all of `y` is written.
///
/// # Shapes
/// As of [`few_row_matmul`](super::few_row_matmul).
#[cfg(target_arch = "x86_64")]
pub(super) fn multiply(
    isa: crate::Isa,
    x: &[f32],
    w: &Packed,
    bias: Option<&[f32]>,
    y: &mut [std::mem::MaybeUninit<f32>],
) {
    thread_local! {
        /// Kept, so that steps after the first allocate nothing.
        static PAIRED: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(vec![]) };
    }
    let (d_in, d_out, width) = (w.d_in(), w.d_out(), w.lines());
    let chunk = kernel::chunk_rows(x.len() / d_in, width);
    for (x, y) in x.chunks(chunk * d_in).zip(y.chunks_mut(chunk * d_out)) {
        PAIRED.with_borrow_mut(|paired| {
            // SAFETY: packing saw that the processor has the instructions.
            unsafe { pair_rows(x, d_in, paired) }
            kernel::multiply::<Pair>(isa, &paired[..x.len() / d_in * width], w, bias, y);
        });
    }
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
mod tests {
    use super::super::{WeightDtype, few_row_matmul};
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
}
