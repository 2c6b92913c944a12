//! Tiles in the registers of x86 processors.
//!
//! A tile of `R` rows, `P` panels and `V` vectors of each panel keeps `R · P · V` sums in registers. Few rows take two
//! panels at once, to have enough independent sums; more rows take one. So a panel is read from memory once for up to
//! six rows (with 16 registers three, and six in two strips): while weights arrive, the sums are computed for nothing.
//! More rows have taller tiles where registers are wide (`tall.rs`).

use super::super::pairs::Pair;
use super::{PAIR, PANEL};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// Bytes of a panel between what is fetched and what is used: what memory has on its way is counted in bytes, whatever
/// the format of the weights.
const AHEAD: usize = 3072;

macro_rules! strip {
    ($name:ident, $features:literal, $lanes:literal, $element:ty, $load:expr, $zero:ident, $set:ident, $fma:ident, $store:ident) => {
        /// `R` rows by `V` vectors of each of `P` panels, from `column` on.
        ///
        /// # Safety
        /// The features are present; `x` holds `R · d_in` values, `panels` `P · d_in · PANEL`, `sums` `R` rows, and
        /// `column + V · lanes <= PANEL`.
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const P: usize, const V: usize>(
            x: &[f32],
            d_in: usize,
            panels: &[$element],
            column: usize,
            sums: &mut [[f32; PAIR]],
        ) {
            let mut acc = [[[$zero(); V]; P]; R];
            let (x, panels) = (x.as_ptr(), panels.as_ptr().wrapping_add(column));
            // SAFETY: all offsets stay below the lengths that the caller guarantees; a prefetch never faults.
            unsafe {
                for k in 0..d_in {
                    let mut w = [[$zero(); V]; P];
                    for p in 0..P {
                        let row = panels.add((p * d_in + k) * PANEL);
                        for line in (0..V * $lanes).step_by(64 / size_of::<$element>()) {
                            _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(line).cast::<i8>().wrapping_add(AHEAD));
                        }
                        for v in 0..V {
                            w[p][v] = $load(row.add($lanes * v));
                        }
                    }
                    for r in 0..R {
                        let value = $set(*x.add(r * d_in + k));
                        for p in 0..P {
                            for v in 0..V {
                                acc[r][p][v] = $fma(value, w[p][v], acc[r][p][v]);
                            }
                        }
                    }
                }
                for r in 0..R {
                    for p in 0..P {
                        for v in 0..V {
                            $store(sums[r].as_mut_ptr().add(p * PANEL + column + $lanes * v), acc[r][p][v]);
                        }
                    }
                }
            }
        }
    };
}

/// All strips of one or two panels.
macro_rules! rows {
    ($name:ident, $strip:ident, $features:literal, $lanes:literal, $element:ty,
     two [$($two:literal => $two_vectors:literal),*], one [$($one:literal => $vectors:literal),*]) => {
        /// Up to [`super::TILE_ROWS`] rows times one or two panels.
        ///
        /// # Safety
        /// The features are present; `x` holds `sums.len() · d_in` values, `panels` one or two times `d_in · PANEL`.
        #[target_feature(enable = $features)]
        pub unsafe fn $name(x: &[f32], d_in: usize, panels: &[$element], sums: &mut [[f32; PAIR]]) {
            let size = d_in * PANEL;
            match (sums.len(), panels.len() / size) {
                $(($two, 2) => for column in (0..PANEL).step_by($two_vectors * $lanes) {
                    // SAFETY: the caller's promise, and a strip of these many rows lies within the panels.
                    unsafe { $strip::<$two, 2, $two_vectors>(x, d_in, panels, column, sums) }
                },)*
                $(($one, count) => for p in 0..count {
                    for column in (0..PANEL).step_by($vectors * $lanes) {
                        let panel = &panels[p * size..(p + 1) * size];
                        let mut strip = [[0.0; PAIR]; $one];
                        // SAFETY: as above.
                        unsafe { $strip::<$one, 1, $vectors>(x, d_in, panel, column, &mut strip) }
                        for (sums, strip) in sums.iter_mut().zip(&strip) {
                            let part = column..column + $vectors * $lanes;
                            sums[p * PANEL..][part.clone()].copy_from_slice(&strip[part]);
                        }
                    }
                },)*
                (rows, _) => unreachable!("a tile of {rows} rows"),
            }
        }
    };
}

pub mod avx512 {
    use super::*;

    macro_rules! element {
        ($rows:ident, $strip:ident, $element:ty, $load:expr) => {
            element!($rows, $strip, $element, $load, "avx512f,avx512bw,f16c", _mm512_fmadd_ps);
        };
        ($rows:ident, $strip:ident, $element:ty, $load:expr, $features:literal, $fma:ident) => {
            strip!($strip, $features, 16, $element, $load, _mm512_setzero_ps, _mm512_set1_ps, $fma, _mm512_storeu_ps);
            rows!($rows, $strip, $features, 16, $element,
                two [1 => 2, 2 => 2, 3 => 2, 4 => 2, 5 => 2, 6 => 2],
                one [1 => 2, 2 => 2, 3 => 2, 4 => 2, 5 => 2, 6 => 2]);
        };
    }
    element!(rows_f32, strip_f32, f32, |p: *const f32| _mm512_load_ps(p));
    element!(rows_f16, strip_f16, f16, |p: *const f16| _mm512_cvtph_ps(_mm256_load_si256(p.cast())));
    element!(rows_bf16, strip_bf16, bf16, |p: *const bf16| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(
        _mm512_cvtepu16_epi32(_mm256_load_si256(p.cast()))
    )));
    element!(
        rows_pairs,
        strip_pairs,
        Pair,
        |p: *const Pair| _mm512_load_ps(p.cast()),
        "avx512f,avx512bw,avx512bf16,f16c",
        dot_pairs
    );

    /// `sum + x · w` of pairs in the place of 32-bit numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn dot_pairs(x: __m512, w: __m512, sum: __m512) -> __m512 {
        // SAFETY: both types are 64 bytes, of any value.
        let (x, w) =
            unsafe { (std::mem::transmute::<__m512, __m512bh>(x), std::mem::transmute::<__m512, __m512bh>(w)) };
        _mm512_dpbf16_ps(sum, x, w)
    }
}

pub mod avx2 {
    use super::*;

    macro_rules! element {
        ($rows:ident, $strip:ident, $element:ty, $load:expr) => {
            strip!($strip, "avx2,fma,f16c", 8, $element, $load, _mm256_setzero_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps);
            rows!($rows, $strip, "avx2,fma,f16c", 8, $element,
                two [1 => 4], one [1 => 4, 2 => 4, 3 => 4, 4 => 2, 5 => 2, 6 => 2]);
        };
    }
    element!(rows_f32, strip_f32, f32, |p: *const f32| _mm256_load_ps(p));
    element!(rows_f16, strip_f16, f16, |p: *const f16| _mm256_cvtph_ps(_mm_load_si128(p.cast())));
    element!(rows_bf16, strip_bf16, bf16, |p: *const bf16| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(
        _mm256_cvtepu16_epi32(_mm_load_si128(p.cast()))
    )));
}
