//! 512-bit vectors with byte dot products of four (AVX-512 VNNI).
//!
//! A tile of `R` rows in `P` parts keeps `2 · P · R` sums in registers, at most 28, beside the two vectors of a line.
//! Few rows have several sets of sums, since a product waits four cycles for the one before it.

use super::super::activations::{BASE, Tile};
use super::super::matrix::Panel;
use super::super::scales::Scales;
use super::super::{CodeBits, LINE, PANEL};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes between a line that is fetched and the one that is used.
const AHEAD: usize = 8192;
/// Columns of a vector.
const LANES: usize = 16;

/// Sums of a tile: by vector, row and part.
type Dots<const R: usize, const P: usize> = [[[__m512i; 2]; R]; P];

/// `sums[row] += row · panel`.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ, VL and VNNI; the tile has a word for every four inputs of the panel and row.
pub unsafe fn add(tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    macro_rules! rows {
        ($([$($rows:literal, $parts:literal, $sets:literal);*]),*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match (tile.rows, tile.parts) {
                    $($(($rows, $parts) => rows::<$rows, $parts, $sets>(tile, panel, sums),)*)*
                    (rows, parts) => unreachable!("a tile of {rows} rows in {parts} parts"),
                }
            }
        };
    }
    rows!(
        [1, 1, 4; 2, 1, 4; 3, 1, 2; 4, 1, 2; 5, 1, 2; 6, 1, 2; 7, 1, 1; 8, 1, 1; 9, 1, 1; 10, 1, 1; 11, 1, 1],
        [12, 1, 1; 13, 1, 1; 14, 1, 1],
        [1, 2, 4; 2, 2, 2; 3, 2, 2; 4, 2, 1; 5, 2, 1; 6, 2, 1; 7, 2, 1]
    );
}

/// [`add`] for so many rows in so many parts, with `S` sets of sums.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")]
unsafe fn rows<const R: usize, const P: usize, const S: usize>(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    sums: &mut [[f32; PANEL]],
) {
    for group in 0..panel.groups {
        let lines = panel.lines_of(group);
        // SAFETY: the caller's promise.
        unsafe {
            let dots = match panel.bits {
                CodeBits::Eight => dots::<R, P, S, false>(tile, panel, lines),
                CodeBits::Four => dots::<R, P, S, true>(tile, panel, lines),
            };
            finish(tile, panel, group, &dots, sums);
        }
    }
}

/// Adds the products of codes with the words from `x` on. The row's four bytes are broadcast once for both
/// vectors; compilers keep broadcasts of several rows in registers instead, and spill sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn add_products<const R: usize, const P: usize>(dots: &mut Dots<R, P>, w: [__m512i; 2], x: *const u32) {
    for (p, dots) in dots.iter_mut().enumerate() {
        for (r, [first, second]) in dots.iter_mut().enumerate() {
            let _word: __m512i;
            // SAFETY: the caller knows the words of a line to be there.
            unsafe {
                asm!("vpbroadcastd {word}, dword ptr [{x}]", "vpdpbusd {first}, {a}, {word}", "vpdpbusd {second}, {b}, {word}",
                    word = out(zmm_reg) _word, x = in(reg) x.add(p * R + r), a = in(zmm_reg) w[0], b = in(zmm_reg) w[1],
                    first = inout(zmm_reg) *first, second = inout(zmm_reg) *second,
                    options(pure, readonly, nostack, preserves_flags));
            }
        }
    }
}

/// Adds the products of a line, which has a word for each row and part, or two with codes of 4 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn add_line<const R: usize, const P: usize, const FOUR: bool>(
    dots: &mut Dots<R, P>,
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    line: usize,
) {
    let low = _mm512_set1_epi8(15);
    // SAFETY: the caller knows the line and its words to be there.
    unsafe {
        let w = load(panel.codes.as_ptr().add(line * LINE));
        let x = tile.words.as_ptr().add(line * R * P * if FOUR { 2 } else { 1 });
        if FOUR {
            add_products::<R, P>(dots, w.map(|w| _mm512_and_si512(w, low)), x);
            let upper = w.map(|w| _mm512_and_si512(_mm512_srli_epi16::<4>(w), low));
            add_products::<R, P>(dots, upper, x.add(R * P));
        } else {
            add_products::<R, P>(dots, w, x);
        }
    }
}

/// Loads a line and fetches a later one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn load(codes: *const u8) -> [__m512i; 2] {
    // SAFETY: the caller knows the line to be there; a prefetch never faults.
    unsafe {
        [0, 64].map(|at| {
            _mm_prefetch::<_MM_HINT_T0>(codes.wrapping_add(at + AHEAD).cast());
            _mm512_loadu_si512(codes.add(at).cast())
        })
    }
}

/// Sums of a group's codes, of 4 bits if `FOUR`, else of 8.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots<const R: usize, const P: usize, const S: usize, const FOUR: bool>(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    lines: Range<usize>,
) -> Dots<R, P> {
    let mut sets = [[[[_mm512_setzero_si512(); 2]; R]; P]; S];
    let mut line = lines.start;
    // SAFETY: lines lie within the panel, and their words within the tile.
    unsafe {
        while line + S <= lines.end {
            for (s, dots) in sets.iter_mut().enumerate() {
                add_line::<R, P, FOUR>(dots, tile, panel, line + s);
            }
            line += S;
        }
        while line < lines.end {
            add_line::<R, P, FOUR>(&mut sets[0], tile, panel, line);
            line += 1;
        }
    }
    folded(sets)
}

/// The sum of all sets.
#[inline]
#[target_feature(enable = "avx512f")]
fn folded<const R: usize, const P: usize, const S: usize>(sets: [Dots<R, P>; S]) -> Dots<R, P> {
    let mut all = sets[0];
    for set in &sets[1..] {
        for p in 0..P {
            for r in 0..R {
                for v in 0..2 {
                    all[p][r][v] = _mm512_add_epi32(all[p][r][v], set[p][r][v]);
                }
            }
        }
    }
    all
}

/// The operations of [`super::finish`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn finish<const R: usize, const P: usize>(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    group: usize,
    dots: &Dots<R, P>,
    sums: &mut [[f32; PANEL]],
) {
    assert!(sums.len() == R && tile.rows == R && tile.parts == P);
    for v in 0..2 {
        let scale = scales(panel, group, v);
        let zeros = panel.zeros.map(|_| panel.zeros_of::<LANES>(group, v * LANES));
        // SAFETY: the types have the same size, and any bits are a value of both.
        let zeros = zeros.map(|zeros| unsafe { std::mem::transmute::<[i32; LANES], __m512i>(zeros) });
        for r in 0..R {
            let part = |p: usize| {
                let sum = tile.sums[(r * P + p) * panel.groups + group];
                let offset = match zeros {
                    None => _mm512_set1_epi32(i32::from(panel.bits.middle()) * sum),
                    Some(zeros) => _mm512_mullo_epi32(zeros, _mm512_set1_epi32(sum)),
                };
                _mm512_cvtepi32_ps(_mm512_sub_epi32(dots[p][r][v], offset))
            };
            let whole = if P == 2 { _mm512_fmadd_ps(part(0), _mm512_set1_ps(BASE), part(1)) } else { part(0) };
            let factor = _mm512_mul_ps(scale, _mm512_set1_ps(tile.scales[r * panel.groups + group]));
            let to = sums[r][v * LANES..][..LANES].as_mut_ptr();
            // SAFETY: sixteen numbers.
            unsafe { _mm512_storeu_ps(to, _mm512_fmadd_ps(whole, factor, _mm512_loadu_ps(to))) };
        }
    }
}

/// Scales of a vector's columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,f16c")]
fn scales(panel: &Panel<'_>, group: usize, v: usize) -> __m512 {
    let range = panel.place(group, v * LANES, LANES);
    // SAFETY: sixteen values are read from slices of sixteen.
    unsafe {
        match panel.scales {
            Scales::F32(values) => _mm512_loadu_ps(values[range].as_ptr()),
            Scales::F16(values) => _mm512_cvtph_ps(_mm256_loadu_si256(values[range].as_ptr().cast())),
            Scales::Bf16(values) => {
                let bits = _mm256_loadu_si256(values[range].as_ptr().cast());
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
            }
        }
    }
}
