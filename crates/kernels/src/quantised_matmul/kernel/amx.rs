//! Tiles of 16 rows by 64 bytes (AMX): one instruction multiplies up to 16 rows of inputs with 16 columns of codes, 64
//! inputs deep.
//!
//! A line of a panel has four codes of each column one after the other, which is the order in which a tile expects its
//! right factor. Inputs lie row after row ([`Tile::by_rows`]).

use super::super::activations::{TALLEST, Tile};
use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL, QuantisedMatrix};
use super::finish::finish;
use crate::Isa;
use crate::tiles::Unit;

/// Bytes of a tile's row.
const DEEPEST: usize = 64;
/// Rows from which tiles are used: fewer wait for the weights, which vectors do as well.
const LEAST_ROWS: usize = 4;

/// Inputs that a tile takes of a group, if groups are whole tiles.
fn depth(w: &QuantisedMatrix) -> Option<usize> {
    let depth = w.group().min(DEEPEST);
    let is_whole = depth.is_multiple_of(32) && w.group().is_multiple_of(depth) && w.d_in().is_multiple_of(depth);
    is_whole.then_some(depth)
}

/// Whether a product of so many rows is computed in tiles.
pub fn takes(isa: Isa, w: &QuantisedMatrix, rows: usize) -> bool {
    rows >= LEAST_ROWS && isa.has_tiles() && depth(w).is_some()
}

/// `sums[row] += row · panel`, of inputs that lie row after row.
///
/// # Safety
/// The unit is there, [`depth`] is that of the matrix, and the tile has a byte for every input of the panel and row.
pub unsafe fn add(unit: &mut impl Unit, tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    let tall = tile.rows * tile.parts;
    let per_line = panel.bits.inputs_per_line();
    let depth = (panel.lines_per_group * per_line).min(DEEPEST);
    let (width, inputs) = (tile.words.len() / tall * 4, tile.words.as_ptr().cast::<u8>());
    let mut unpacked = [0u8; DEEPEST / 4 * LINE];
    for group in 0..panel.groups {
        let mut dots = [[0i32; PANEL]; TALLEST];
        // SAFETY: the caller's promise; a group is a whole number of tiles.
        unsafe {
            unit.begin(tall, depth);
            for line in panel.lines_of(group).step_by(depth / per_line) {
                let codes = &panel.codes[line * LINE..][..depth / per_line * LINE];
                let codes = match panel.bits {
                    CodeBits::Eight => codes.as_ptr(),
                    CodeBits::Four => unpack(codes, &mut unpacked).as_ptr(),
                };
                unit.add(inputs.add(line * per_line), width, codes);
            }
            unit.end(dots.as_mut_ptr().cast());
        }
        finish(tile, panel, group, &dots[..tall], sums);
    }
}

/// Codes of 4 bits as bytes: each line becomes two, of the lower and the upper halves.
fn unpack<'a>(codes: &[u8], to: &'a mut [u8]) -> &'a [u8] {
    for (line, both) in codes.chunks_exact(LINE).zip(to.chunks_exact_mut(2 * LINE)) {
        let (lower, upper) = both.split_at_mut(LINE);
        for ((code, lower), upper) in line.iter().zip(lower).zip(upper) {
            (*lower, *upper) = (code & 15, code >> 4);
        }
    }
    to
}

#[cfg(test)]
mod tests;
