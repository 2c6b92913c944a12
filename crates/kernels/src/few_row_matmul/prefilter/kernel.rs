//! Bounds of outputs by products of bytes (AVX-512 VNNI).

#![expect(clippy::needless_range_loop, reason = "what is indexed by rows and vectors stays in registers")]

use super::super::PANEL;
use super::{Coarse, GROUP, Int8Prefilter, RowFacts, Rows};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes between what is fetched and what is used.
const AHEAD: usize = 8192;
/// Columns of a vector.
const LANES: usize = 16;

/// A product of four bytes for each column, added to its sum. The row's come straight from memory (an embedded
/// broadcast): compilers keep broadcasts in registers instead, and spill sums.
macro_rules! add_products {
    ($sum:expr, $w:expr, $x:expr) => {
        asm!("vpdpbusd {sum}, {w}, dword ptr [{x}]{{1to16}}", sum = inout(zmm_reg) $sum, w = in(zmm_reg) $w, x = in(reg) $x,
            options(pure, readonly, nostack, preserves_flags))
    };
}

/// The greatest lower and the greatest upper bound of a panel's outputs by the rows' upper parts alone, for the `R`
/// rows of a tile.
///
/// # Safety
/// The processor has AVX-512 F, BW and VNNI; the rows were set for this prefilter.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn coarse<const R: usize>(
    prefilter: &Int8Prefilter,
    panel: usize,
    rows: &Rows,
    tile: Range<usize>,
) -> [[f32; 2]; R] {
    let groups = prefilter.groups();
    let weights = prefilter.panels[panel * PANEL * groups * GROUP..][..PANEL * groups * GROUP].as_ptr();
    let values = &rows.upper[tile.start * groups..tile.end * groups];
    assert!(tile.len() == R && values.len() == R * groups && rows.facts.len() >= tile.end);
    let values = values.as_ptr();
    let mut sums = [[_mm512_setzero_si512(); R]; 2];
    for group in 0..groups {
        for v in 0..2 {
            // SAFETY: `group` counts the groups of the panel, which has two vectors for each, and those of each row.
            unsafe {
                let w = weights.add((group * 2 + v) * LANES * GROUP);
                _mm_prefetch::<_MM_HINT_T1>(w.wrapping_add(AHEAD).cast());
                let w = _mm512_load_si512(w.cast());
                for r in 0..R {
                    add_products!(sums[v][r], w, values.add(group * R + r));
                }
            }
        }
    }
    let mut found = [[0f32; 2]; R];
    for r in 0..R {
        let facts = rows.facts[tile.start + r];
        let Coarse { scale, on_kept } = facts.coarse;
        let mut most = [_mm512_set1_ps(f32::NEG_INFINITY); 2];
        for v in 0..2 {
            let whole = without(sums[v][r], facts.offsets[0]);
            // SAFETY: the processor is the caller's promise.
            unsafe { widen(prefilter, panel, v, facts, (whole, scale, on_kept), &mut most) };
        }
        found[r] = most.map(|most| _mm512_reduce_max_ps(most));
    }
    found
}

/// Refines [`coarse`] to all 16 bits of `R` rows, from `first` on, of a tile.
///
/// # Safety
/// As of [`coarse`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn fine<const R: usize>(
    prefilter: &Int8Prefilter,
    panel: usize,
    rows: &Rows,
    tile: Range<usize>,
    first: usize,
) -> [[f32; 2]; R] {
    let groups = prefilter.groups();
    let weights = prefilter.panels[panel * PANEL * groups * GROUP..][..PANEL * groups * GROUP].as_ptr();
    assert!(tile.start <= first && first + R <= tile.end && rows.facts.len() >= tile.end);
    let upper = rows.upper[tile.start * groups..tile.end * groups][first - tile.start..].as_ptr();
    let lower = rows.lower[first * groups..(first + R) * groups].as_ptr();
    let mut sums = [[[_mm512_setzero_si512(); 2]; R]; 2];
    for group in 0..groups {
        for v in 0..2 {
            let w = weights.wrapping_add((group * 2 + v) * LANES * GROUP);
            _mm_prefetch::<_MM_HINT_T1>(w.wrapping_add(AHEAD).cast());
            // SAFETY: `group` counts the groups of the panel, which has two vectors for each, and those of each row.
            unsafe {
                let w = _mm512_load_si512(w.cast());
                for r in 0..R {
                    add_products!(sums[v][r][0], w, upper.add(group * tile.len() + r));
                    add_products!(sums[v][r][1], w, lower.add(r * groups + group));
                }
            }
        }
    }
    let mut found = [[0f32; 2]; R];
    for r in 0..R {
        let facts = rows.facts[first + r];
        let mut most = [_mm512_set1_ps(f32::NEG_INFINITY); 2];
        for v in 0..2 {
            let [high, low] = [0, 1].map(|part| without(sums[v][r][part], facts.offsets[part]));
            let whole = _mm512_fmadd_ps(high, _mm512_set1_ps(256.0), low);
            // SAFETY: the processor is the caller's promise.
            unsafe { widen(prefilter, panel, v, facts, (whole, facts.scale, facts.on_kept), &mut most) };
        }
        found[r] = most.map(|most| _mm512_reduce_max_ps(most));
    }
    found
}

/// Sums without what adding 128 to weights added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn without(sums: __m512i, offset: i32) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, _mm512_set1_epi32(offset)))
}

/// Takes the bounds of a vector of outputs into the greatest ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn widen(
    prefilter: &Int8Prefilter,
    panel: usize,
    v: usize,
    row: RowFacts,
    (whole, row_scale, on_kept): (__m512, f32, f32),
    most: &mut [__m512; 2],
) {
    let [scale, lost, kept] = prefilter.columns.each_ref().map(|column| {
        let part = &column[panel * PANEL + v * LANES..][..LANES];
        // SAFETY: sixteen values are there.
        unsafe { _mm512_loadu_ps(part.as_ptr()) }
    });
    let about = _mm512_mul_ps(whole, _mm512_mul_ps(scale, _mm512_set1_ps(row_scale)));
    let by = _mm512_fmadd_ps(lost, _mm512_set1_ps(row.on_lost), _mm512_mul_ps(kept, _mm512_set1_ps(on_kept)));
    most[0] = _mm512_max_ps(most[0], _mm512_sub_ps(about, by));
    most[1] = _mm512_max_ps(most[1], _mm512_add_ps(about, by));
}
