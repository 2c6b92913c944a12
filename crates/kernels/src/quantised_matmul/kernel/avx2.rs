//! 256-bit vectors without byte dot products of four.
//!
//! `vpmaddubsw` multiplies unsigned bytes by signed ones and adds pairs with saturation at 16 bits. Codes of 4 bits
//! stay far below it. Codes of 8 bits are taken less 128; then `|code| · (x · sign(code))` is at most `128 · 127` and a
//! pair fits.

use super::super::activations::{TALLEST, Tile};
use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL};
use super::finish::{finish, put_back};
use std::arch::x86_64::*;
use std::ops::Range;

/// Columns of a vector.
const LANES: usize = 8;
/// Vectors of a panel.
const VECTORS: usize = PANEL / LANES;

/// `sums[row] += row · panel`.
///
/// # Safety
/// The processor has AVX2, FMA and F16C; the tile has a word for every four inputs of the panel and row.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn add(tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    let tall = tile.rows * tile.parts;
    for group in 0..panel.groups {
        let mut dots = [[0i32; PANEL]; TALLEST];
        let lines = panel.lines_of(group);
        for vector in 0..VECTORS {
            let mut row = 0;
            while row < tall {
                // SAFETY: the caller's promise; rows and columns lie within the tile and the panel.
                unsafe {
                    match tall - row {
                        1 => strip::<1>(tile, panel, lines.clone(), row, vector, &mut dots),
                        2 => strip::<2>(tile, panel, lines.clone(), row, vector, &mut dots),
                        3 => strip::<3>(tile, panel, lines.clone(), row, vector, &mut dots),
                        _ => strip::<4>(tile, panel, lines.clone(), row, vector, &mut dots),
                    }
                }
                row += (tall - row).min(4);
            }
        }
        if panel.bits == CodeBits::Eight {
            put_back(tile, panel, group, &mut dots);
        }
        finish(tile, panel, group, &dots[..tall], sums);
    }
}

/// `R` rows times the eight columns of a vector.
///
/// # Safety
/// As of [`add`], and `row + R` rows are there.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn strip<const R: usize>(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    lines: Range<usize>,
    row: usize,
    vector: usize,
    dots: &mut [[i32; PANEL]],
) {
    let tall = tile.rows * tile.parts;
    let mut acc = [_mm256_setzero_si256(); R];
    let (codes, words) = (panel.codes.as_ptr(), tile.words.as_ptr());
    let (ones, low) = (_mm256_set1_epi16(1), _mm256_set1_epi8(15));
    for line in lines {
        // SAFETY: the line lies within the panel, and its words within the tile.
        unsafe {
            let w = _mm256_loadu_si256(codes.add(line * LINE + vector * 4 * LANES).cast());
            let word = |word: usize, r: usize| _mm256_set1_epi32(*words.add(word * tall + row + r) as i32);
            match panel.bits {
                CodeBits::Eight => {
                    let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
                    let magnitude = _mm256_abs_epi8(w);
                    for (r, acc) in acc.iter_mut().enumerate() {
                        let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(word(line, r), w));
                        *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(pairs, ones));
                    }
                }
                CodeBits::Four => {
                    let (first, second) = (_mm256_and_si256(w, low), _mm256_and_si256(_mm256_srli_epi16::<4>(w), low));
                    for (r, acc) in acc.iter_mut().enumerate() {
                        let pairs = _mm256_add_epi16(
                            _mm256_maddubs_epi16(first, word(2 * line, r)),
                            _mm256_maddubs_epi16(second, word(2 * line + 1, r)),
                        );
                        *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(pairs, ones));
                    }
                }
            }
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        let to = dots[row + r][vector * LANES..][..LANES].as_mut_ptr();
        // SAFETY: eight numbers.
        unsafe { _mm256_storeu_si256(to.cast(), acc) };
    }
}
