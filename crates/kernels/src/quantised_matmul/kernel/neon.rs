//! 128-bit vectors with byte dot products of four (NEON with the dot-product extension).
//!
//! The instruction multiplies signed bytes, so codes of 8 bits are taken less 128.

use super::super::activations::{TALLEST, Tile};
use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL};
use super::finish::{finish, put_back};
use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

/// Columns of a vector.
const LANES: usize = 4;
/// Vectors of a panel.
const VECTORS: usize = PANEL / LANES;

/// `sums[row] += row · panel`.
///
/// # Safety
/// The processor has the dot-product extension; the tile has a word for every four inputs of the panel and row.
pub unsafe fn add(tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    let tall = tile.rows * tile.parts;
    for group in 0..panel.groups {
        let mut dots = [[0i32; PANEL]; TALLEST];
        let lines = panel.lines_of(group);
        let mut row = 0;
        while row < tall {
            let height = (tall - row).min(2);
            // SAFETY: the caller's promise; rows lie within the tile.
            unsafe {
                match height {
                    1 => strip::<1>(tile, panel, lines.clone(), row, &mut dots),
                    _ => strip::<2>(tile, panel, lines.clone(), row, &mut dots),
                }
            }
            row += height;
        }
        if panel.bits == CodeBits::Eight {
            put_back(tile, panel, group, &mut dots);
        }
        finish(tile, panel, group, &dots[..tall], sums);
    }
}

/// `sum + Σ w · x` of four signed bytes in each lane.
#[inline(always)]
unsafe fn dot(mut sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the caller knows the processor to have the instruction, which changes nothing but its result.
    unsafe {
        asm!(".arch_extension dotprod", "sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b", sum = inout(vreg) sum, w = in(vreg) w,
            x = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// `R` rows times a panel.
///
/// # Safety
/// As of [`add`], and `row + R` rows are there.
unsafe fn strip<const R: usize>(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    lines: Range<usize>,
    row: usize,
    dots: &mut [[i32; PANEL]],
) {
    let tall = tile.rows * tile.parts;
    let (codes, words) = (panel.codes.as_ptr(), tile.words.as_ptr());
    // SAFETY: lines lie within the panel, and their words within the tile; results are stored within rows of `dots`.
    unsafe {
        let mut acc = [[vdupq_n_s32(0); VECTORS]; R];
        let input = |word: usize, r: usize| vreinterpretq_s8_u32(vld1q_dup_u32(words.add(word * tall + row + r)));
        for line in lines {
            for v in 0..VECTORS {
                let w = vld1q_u8(codes.add(line * LINE + v * 4 * LANES));
                match panel.bits {
                    CodeBits::Eight => {
                        let w = vreinterpretq_s8_u8(veorq_u8(w, vdupq_n_u8(128)));
                        for r in 0..R {
                            acc[r][v] = dot(acc[r][v], w, input(line, r));
                        }
                    }
                    CodeBits::Four => {
                        let first = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
                        let second = vreinterpretq_s8_u8(vshrq_n_u8::<4>(w));
                        for r in 0..R {
                            acc[r][v] = dot(acc[r][v], first, input(2 * line, r));
                            acc[r][v] = dot(acc[r][v], second, input(2 * line + 1, r));
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for v in 0..VECTORS {
                vst1q_s32(dots[row + r].as_mut_ptr().add(v * LANES), acc[r][v]);
            }
        }
    }
}
