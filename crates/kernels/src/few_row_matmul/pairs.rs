//! Products of pairs of 16-bit numbers with sums in 32 bits: twice the multiply-adds per instruction.
//!
//! `y = Σ_j (x[2j] · w[2j] + x[2j + 1] · w[2j + 1])` with `x` and `w` rounded to `bf16`, by the processor's dot-product instruction, which
//! rounds each of its two sums and takes subnormal numbers for zero. For fitting heads; verification never uses it.

use super::kernel::{self, Output};
use super::packed::{Bits, Element};
use super::{PANEL, PackError, Packed, RowSource, WeightDtype};
use half::bf16;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Two neighbouring inputs' weights in 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Pair(u32);

impl Bits for Pair {}
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

/// A frozen weight matrix as pairs of `bf16`.
#[derive(Debug)]
pub struct PackedPairs {
    /// Pairs in the place of 32-bit numbers.
    pairs: Packed,
    d_in: usize,
}

/// Rows as pairs, in the place of 32-bit numbers.
struct PairsOf<'a> {
    source: &'a dyn RowSource,
    d_in: usize,
}

impl RowSource for PairsOf<'_> {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        let width = self.d_in.div_ceil(2);
        let mut wide = vec![0f32; rows.len() * self.d_in];
        self.source.read_rows(rows, &mut wide)?;
        for (row, out) in wide.chunks_exact(self.d_in).zip(out.chunks_exact_mut(width)) {
            for (out, pair) in out.iter_mut().zip(row.chunks(2)) {
                *out = f32::from_bits(pair_of(pair[0], pair.get(1).copied().unwrap_or(0.0)));
            }
        }
        Ok(())
    }
}

fn pair_of(low: f32, high: f32) -> u32 {
    u32::from(bf16::from_f32(low).to_bits()) | u32::from(bf16::from_f32(high).to_bits()) << 16
}

impl PackedPairs {
    /// Whether this processor has the instruction.
    pub fn are_supported() -> bool {
        crate::Isa::detect().has_tall_tiles() && is_x86_feature_detected!("avx512bf16")
    }

    /// Packs a `[d_out, d_in]` matrix.
    ///
    /// # Errors
    /// As [`Packed::pack`].
    ///
    /// # Panics
    /// If the processor has no such products.
    pub fn pack(d_in: usize, d_out: usize, source: &dyn RowSource) -> Result<Self, PackError> {
        assert!(Self::are_supported(), "products of pairs on a processor without them");
        let pairs = Packed::pack(d_in.div_ceil(2), d_out, WeightDtype::F32, &PairsOf { source, d_in })?;
        Ok(Self { pairs, d_in })
    }

    /// Bytes held, padding included.
    pub fn bytes(&self) -> usize {
        self.pairs.bytes()
    }

    /// Output columns.
    pub fn d_out(&self) -> usize {
        self.pairs.d_out()
    }

    /// `y = x · W` for any number of rows; all of `y` is written.
    ///
    /// # Shapes
    /// `x [rows, d_in]`, `y [rows, d_out]`.
    ///
    /// # Panics
    /// If a length does not fit.
    pub(super) fn write_product(&self, x: &[f32], y: &mut [MaybeUninit<f32>]) {
        let (d_in, d_out, width) = (self.d_in, self.d_out(), self.pairs.d_in());
        let rows = x.len() / d_in;
        assert!(x.len() == rows * d_in && y.len() == rows * d_out, "{} values against {self:?}", x.len());
        thread_local! {
            /// Kept, as the rows side by side are.
            static PAIRED: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
        }
        let chunk = kernel::chunk_rows(rows, width);
        for (x, y) in x.chunks(chunk * d_in).zip(y.chunks_mut(chunk * d_out)) {
            PAIRED.with_borrow_mut(|paired| {
                let rows = x.len() / d_in;
                let out = Output::new(&self.pairs, None, y);
                // SAFETY: packing saw that the processor has the instructions.
                unsafe {
                    pair_rows(x, d_in, paired);
                    // Fewer rows than the lowest tile has are filled up with zeros, whose results nobody reads.
                    paired.resize(rows.max(kernel::tall::FROM) * width, 0.0);
                    kernel::multiply_tall::<Pair>(paired, rows, &self.pairs, &out);
                }
            });
        }
    }
}

/// `x [rows, d_in]` as pairs `[rows, ceil(d_in / 2)]`, in the place of 32-bit numbers.
///
/// # Safety
/// The processor has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pair_rows(x: &[f32], d_in: usize, out: &mut Vec<f32>) {
    use std::arch::x86_64::*;
    let width = d_in.div_ceil(2);
    out.resize(x.len() / d_in * width, 0.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is anything to be tested; says so if not.
    fn here() -> bool {
        if !PackedPairs::are_supported() {
            eprintln!("SKIPPED: no products of bf16 pairs here");
        }
        PackedPairs::are_supported()
    }

    fn value(i: usize) -> f32 {
        ((i * 7919) % 2003) as f32 / 1001.5 - 1.0
    }

    #[test]
    fn equals_the_definition_up_to_roundings_of_sums() {
        if !here() {
            return;
        }
        let rounded = |v: f32| f64::from(bf16::from_f32(v).to_f32());
        for (d_in, d_out) in [(1, 3), (37, 50), (64, 96), (2100, 70)] {
            let w: Vec<f32> = (0..d_in * d_out).map(|i| value(i + 5)).collect();
            let packed = PackedPairs::pack(d_in, d_out, &(&w[..], d_in)).unwrap();
            for rows in [1, 6, 7, 15, 16, 130] {
                let x: Vec<f32> = (0..rows * d_in).map(|i| value(i * 3 + 1)).collect();
                let mut y = vec![f32::NAN; rows * d_out];
                // SAFETY: a product writes numbers only.
                packed.write_product(&x, unsafe { crate::host::as_unwritten(&mut y) });
                for (row, y) in x.chunks(d_in).zip(y.chunks(d_out)) {
                    for (w, &y) in w.chunks(d_in).zip(y) {
                        let products = || row.iter().zip(w).map(|(&a, &b)| rounded(a) * rounded(b));
                        let (sum, size) = (products().sum::<f64>(), products().map(f64::abs).sum::<f64>());
                        assert!((f64::from(y) - sum).abs() <= 1e-6 * size.max(1e-3), "{d_in} x {d_out}: {y} {sum}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_company() {
        if !here() {
            return;
        }
        let (d_in, d_out, rows) = (90, 130, 40);
        let w: Vec<f32> = (0..d_in * d_out).map(value).collect();
        let x: Vec<f32> = (0..rows * d_in).map(|i| value(i + 77)).collect();
        let packed = PackedPairs::pack(d_in, d_out, &(&w[..], d_in)).unwrap();
        let product = |x: &[f32]| {
            let mut y = vec![0f32; x.len() / d_in * d_out];
            // SAFETY: a product writes numbers only.
            packed.write_product(x, unsafe { crate::host::as_unwritten(&mut y) });
            y
        };
        let alone: Vec<f32> = x.chunks(d_in).flat_map(product).collect();
        assert_eq!(product(&x), alone);
    }
}
