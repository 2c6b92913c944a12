//! Any processor.

use super::super::activations::{TALLEST, Tile};
use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL};
use super::finish::finish;

/// `sums[row] += row · panel`.
pub(super) fn add(tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    let tall = tile.rows * tile.parts;
    for group in 0..panel.groups {
        let mut dots = [[0i32; PANEL]; TALLEST];
        for line in panel.lines_of(group) {
            let codes = &panel.codes[line * LINE..(line + 1) * LINE];
            for (row, dots) in dots[..tall].iter_mut().enumerate() {
                let word = |word: usize| tile.words[word * tall + row].to_le_bytes().map(|byte| byte as i8);
                match panel.bits {
                    CodeBits::Eight => add_line(dots, codes, word(line), |code| code),
                    CodeBits::Four => {
                        add_line(dots, codes, word(2 * line), |code| code & 15);
                        add_line(dots, codes, word(2 * line + 1), |code| code >> 4);
                    }
                }
            }
        }
        finish(tile, panel, group, &dots[..tall], sums);
    }
}

/// Adds the products of four inputs with every column's codes.
#[inline(always)]
fn add_line(dots: &mut [i32; PANEL], codes: &[u8], x: [i8; 4], code: impl Fn(u8) -> u8) {
    for (dot, codes) in dots.iter_mut().zip(codes.as_chunks::<4>().0) {
        for (x, &byte) in x.iter().zip(codes) {
            *dot += i32::from(*x) * i32::from(code(byte));
        }
    }
}
