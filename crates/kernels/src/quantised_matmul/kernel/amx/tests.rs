//! The layout and order of tiles against portable code, with a model of what the processor's tiles do.

use super::super::super::activations::IntegerRows;
use super::super::super::{Activations, Codes, ScaleFormat};
use super::super::portable;
use super::*;

/// `tileloadd`, `tdpbsud` and `tilestored`, as Intel's manual defines them.
#[derive(Default)]
struct Model {
    rows: usize,
}

impl Unit for Model {
    unsafe fn begin(&mut self, rows: usize) {
        assert!((1..=16).contains(&rows) && self.rows == 0);
        self.rows = rows;
    }

    unsafe fn multiply(&mut self, inputs: *const u8, stride: usize, codes: *const u8, blocks: usize, sums: *mut i32) {
        assert!(self.rows > 0 && blocks > 0);
        let mut tiles = [[[0i32; 16]; 16]; 2];
        for (half, tile) in tiles.iter_mut().enumerate() {
            for (m, row) in tile[..self.rows].iter_mut().enumerate() {
                for (n, sum) in row.iter_mut().enumerate() {
                    for k in 0..blocks * DEPTH {
                        // SAFETY: the caller's promise.
                        let (a, b) = unsafe {
                            (*inputs.add(m * stride + k), *codes.add(k / 4 * LINE + 64 * half + 4 * n + k % 4))
                        };
                        *sum += i32::from(a as i8) * i32::from(b);
                    }
                }
            }
        }
        for (place, n) in (0..self.rows * PANEL).map(|place| (place, place % PANEL)) {
            // SAFETY: the caller's promise.
            unsafe { *sums.add(place) = tiles[n / 16][place / PANEL][n % 16] };
        }
    }

    fn end(&mut self) {
        self.rows = 0;
    }
}

/// A matrix of codes that repeat with no simple period.
fn matrix(d_in: usize, d_out: usize, group: usize, bits: CodeBits) -> QuantisedMatrix {
    let most = 1usize << bits.bits();
    let values: Vec<u8> = (0..d_in * d_out).map(|i| ((i * i * 7 + i * 13 + i / 97) % most) as u8).collect();
    let scales = (0..d_out * d_in.div_ceil(group)).map(|i| 0.01 + (i % 17) as f32 * 1e-3).collect();
    let zeros = Some((0..d_out * d_in.div_ceil(group)).map(|i| (i * 5 % most) as u8).collect());
    let scale_format = ScaleFormat::F32;
    let layout = Codes { d_in, d_out, bits, group, scales, scale_format, zeros, order: None, numbers: None };
    QuantisedMatrix::pack(layout, &(&values[..], d_in)).unwrap()
}

/// Adds the product of a tile and a panel.
type Add<'a> = &'a mut dyn FnMut(&Tile<'_>, &Panel<'_>, &mut [[f32; PANEL]]);

/// Rows times a matrix, panel after panel and tile after tile.
fn product(x: &[f32], w: &QuantisedMatrix, activations: Activations, by_rows: bool, add: Add<'_>) -> Vec<f32> {
    let mut rows = IntegerRows::default();
    rows.set(Isa::detect(), x, w, activations, by_rows);
    let mut found = vec![];
    for panel in 0..w.d_out().div_ceil(PANEL) {
        for tile in 0..rows.tiles() {
            let tile = rows.tile(tile);
            let mut sums = [[0f32; PANEL]; TALLEST];
            add(&tile, &w.panel(panel), &mut sums[..tile.rows]);
            found.extend(sums[..tile.rows].iter().flatten());
        }
    }
    found
}

#[test]
fn tiles_give_the_bits_of_portable_code() {
    #[cfg(target_arch = "x86_64")]
    if !crate::tiles::is_there() {
        eprintln!("SKIPPED: this processor has no tiles (AMX); a model of them is tested alone");
    }
    for (d_in, group, bits) in [
        (256, 256, CodeBits::Eight),
        (320, 320, CodeBits::Eight),
        (768, 256, CodeBits::Eight),
        (704, 256, CodeBits::Eight),
    ] {
        let w = matrix(d_in, 70, group, bits);
        assert!(fits(&w), "{w:?}");
        for count in [1, 4, 13, 14, 15, 37] {
            let x: Vec<f32> = (0..count * d_in).map(|i| ((i * 29 + i / 7) % 101) as f32 / 50.0 - 1.0).collect();
            for activations in [Activations::Eight, Activations::Sixteen] {
                let want =
                    product(&x, &w, activations, false, &mut |tile, panel, sums| portable::add(tile, panel, sums));
                // SAFETY: groups are whole tiles.
                let tiles = product(&x, &w, activations, true, &mut |tile, panel, sums| unsafe {
                    add_with(&mut Model::default(), tile, panel, sums)
                });
                assert_eq!(tiles, want, "{count} rows of {w:?}, {activations:?}");
                #[cfg(target_arch = "x86_64")]
                if crate::tiles::is_there() {
                    // SAFETY: groups are whole tiles, and the processor was asked.
                    let tiles =
                        product(&x, &w, activations, true, &mut |tile, panel, sums| unsafe { add(tile, panel, sums) });
                    assert_eq!(tiles, want, "{count} rows of {w:?}, {activations:?} by the processor");
                }
            }
        }
    }
}

/// Odd groups and widths, small groups and codes of 4 bits are left to vectors.
#[test]
fn matrices_without_large_groups_of_whole_tiles_are_left_alone() {
    for (d_in, group, bits) in [
        (300, 300, CodeBits::Eight),
        (768, 300, CodeBits::Eight),
        (700, 256, CodeBits::Eight),
        (512, 128, CodeBits::Eight),
        (512, 512, CodeBits::Four),
    ] {
        assert!(!fits(&matrix(d_in, 33, group, bits)), "{d_in} in groups of {group}");
    }
    assert!(!takes(Isa::available()[0], &matrix(256, 33, 256, CodeBits::Eight), 64), "portable code has no tiles");
}
