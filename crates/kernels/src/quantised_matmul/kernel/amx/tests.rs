//! The layout and order of tiles against portable code, with a model of what the processor's tiles do.

use super::super::super::activations::IntegerRows;
use super::super::super::{Activations, Codes, ScaleFormat};
use super::super::portable;
use super::*;

/// `tileloadd`, `tdpbsud` and `tilestored`, as Intel's manual defines them.
#[derive(Default)]
struct Model {
    rows: usize,
    depth: usize,
    sums: [[[i32; 16]; 16]; 2],
}

impl Unit for Model {
    unsafe fn begin(&mut self, rows: usize, depth: usize) {
        assert!((1..=16).contains(&rows) && (4..=64).contains(&depth) && depth.is_multiple_of(4));
        *self = Self { rows, depth, ..Self::default() };
    }

    unsafe fn add(&mut self, inputs: *const u8, stride: usize, codes: *const u8) {
        for (half, sums) in self.sums.iter_mut().enumerate() {
            for (m, sums) in sums[..self.rows].iter_mut().enumerate() {
                for (n, sum) in sums.iter_mut().enumerate() {
                    for k in 0..self.depth {
                        // SAFETY: the caller's promise.
                        let (a, b) = unsafe {
                            (*inputs.add(m * stride + k), *codes.add(k / 4 * LINE + 64 * half + 4 * n + k % 4))
                        };
                        *sum += i32::from(a as i8) * i32::from(b);
                    }
                }
            }
        }
    }

    unsafe fn end(&mut self, sums: *mut i32) {
        for m in 0..self.rows {
            for n in 0..PANEL {
                // SAFETY: the caller's promise.
                unsafe { *sums.add(m * PANEL + n) = self.sums[n / 16][m][n % 16] };
            }
        }
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

/// Rows times a matrix, panel after panel and tile after tile.
fn product(
    x: &[f32],
    w: &QuantisedMatrix,
    activations: Activations,
    by_rows: bool,
    add: &mut dyn FnMut(&Tile<'_>, &Panel<'_>, &mut [[f32; PANEL]]),
) -> Vec<f32> {
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
        (64, 64, CodeBits::Eight),
        (256, 256, CodeBits::Eight),
        (320, 32, CodeBits::Eight),
        (96, 32, CodeBits::Four),
        (384, 128, CodeBits::Four),
        (192, 64, CodeBits::Four),
    ] {
        let w = matrix(d_in, 70, group, bits);
        assert!(depth(&w).is_some(), "{w:?}");
        for count in [1, 4, 13, 14, 15, 37] {
            let x: Vec<f32> = (0..count * d_in).map(|i| ((i * 29 + i / 7) % 101) as f32 / 50.0 - 1.0).collect();
            for activations in [Activations::Eight, Activations::Sixteen] {
                let want =
                    product(&x, &w, activations, false, &mut |tile, panel, sums| portable::add(tile, panel, sums));
                // SAFETY: groups are whole tiles.
                let tiles = product(&x, &w, activations, true, &mut |tile, panel, sums| unsafe {
                    add(&mut Model::default(), tile, panel, sums)
                });
                assert_eq!(tiles, want, "{count} rows of {w:?}, {activations:?}");
                #[cfg(target_arch = "x86_64")]
                if crate::tiles::is_there() {
                    // SAFETY: groups are whole tiles, and the processor was asked.
                    let tiles = product(&x, &w, activations, true, &mut |tile, panel, sums| unsafe {
                        add(&mut crate::tiles::Hardware, tile, panel, sums)
                    });
                    assert_eq!(tiles, want, "{count} rows of {w:?}, {activations:?} by the processor");
                }
            }
        }
    }
}

/// Odd groups and widths are left to vectors.
#[test]
fn matrices_without_whole_tiles_are_left_alone() {
    for (d_in, group) in [(100, 100), (96, 48), (130, 64), (24, 24), (96, 96)] {
        assert_eq!(depth(&matrix(d_in, 33, group, CodeBits::Eight)), None, "{d_in} in groups of {group}");
    }
    assert_eq!(depth(&matrix(96, 33, 32, CodeBits::Four)), Some(32));
    assert!(!takes(Isa::available()[0], &matrix(64, 33, 64, CodeBits::Eight), 64), "portable code has no tiles");
}
