//! Tiles of 16 rows by 64 bytes (AMX): one instruction multiplies up to 16 rows of inputs with 16 columns of codes, 64
//! inputs deep.
//!
//! A line of a panel has four codes of each column one after the other, which is the order in which a tile expects its
//! right factor. Inputs lie row after row ([`Tile::by_rows`]). Codes of 4 bits and small groups are left to vectors: what
//! is done once per group would take longer than the products.

use super::super::activations::{TALLEST, Tile};
use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL, QuantisedMatrix};
use super::finish::finish;
use crate::Isa;
use crate::tiles::{COLUMNS, DEPTH, Unit};

/// Rows from which tiles are used: fewer wait for the weights, which vectors do as well.
const LEAST_ROWS: usize = 4;
/// Inputs of a group at least.
const LEAST_GROUP: usize = 256;

/// Whether a matrix has codes of 8 bits in groups of at least 256 inputs, each group a whole number of tiles.
fn fits(w: &QuantisedMatrix) -> bool {
    const { assert!(COLUMNS == PANEL && 4 * COLUMNS == LINE) };
    let is_whole = w.group().is_multiple_of(DEPTH) && w.d_in().is_multiple_of(DEPTH);
    is_whole && w.bits() == CodeBits::Eight && w.group() >= LEAST_GROUP
}

/// Whether the product of `rows` rows and a matrix is computed with AMX.
pub fn takes(isa: Isa, w: &QuantisedMatrix, rows: usize) -> bool {
    rows >= LEAST_ROWS && fits(w) && isa.has_tiles()
}

/// `sums[row] += row · panel`, of inputs that lie row after row, by the processor's tiles.
///
/// # Safety
/// The processor has tiles and AVX-512 F, BW, DQ and VL; else as of [`add_with`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub unsafe fn add(tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    // SAFETY: the caller's promise.
    unsafe { add_with(&mut crate::tiles::Hardware, tile, panel, sums) }
}

/// [`add`] by any unit.
///
/// # Safety
/// The matrix [`fits`], and the tile has a byte for every input of the panel and row.
#[inline(always)]
unsafe fn add_with(unit: &mut impl Unit, tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    let tall = tile.rows * tile.parts;
    let (width, inputs) = (tile.words.len() / tall * 4, tile.words.as_ptr().cast::<u8>());
    // SAFETY: a tile has 1 to 14 rows.
    unsafe { unit.begin(tall) };
    for group in 0..panel.groups {
        let (mut dots, lines) = ([[0i32; PANEL]; TALLEST], panel.lines_of(group));
        let codes = &panel.codes[lines.start * LINE..lines.end * LINE];
        // SAFETY: a group is a whole number of tiles.
        unsafe {
            let inputs = inputs.add(lines.start * 4);
            unit.multiply(inputs, width, codes.as_ptr(), lines.len() * 4 / DEPTH, dots.as_mut_ptr().cast());
        }
        finish(tile, panel, group, &dots[..tall], sums);
    }
    unit.end();
}

#[cfg(test)]
mod tests;
