//! From integer sums to `f32` sums.

use super::super::PANEL;
use super::super::activations::{BASE, Tile};
use super::super::matrix::Panel;

/// Takes a group's integer sums into the rows' `f32` sums: the operations that every instruction set performs.
///
/// # Shapes
/// `dots [parts · rows][PANEL]`, sums of rounded inputs times codes.
#[inline(always)]
pub(super) fn finish(
    tile: &Tile<'_>,
    panel: &Panel<'_>,
    group: usize,
    dots: &[[i32; PANEL]],
    sums: &mut [[f32; PANEL]],
) {
    let (scales, zeros) = (panel.scales_of::<PANEL>(group, 0), panel.zeros_of::<PANEL>(group, 0));
    for (row, out) in sums.iter_mut().enumerate() {
        let scale = tile.scales[row * panel.groups + group];
        let offset = |part: usize| tile.sums[(row * tile.parts + part) * panel.groups + group];
        for column in 0..PANEL {
            let part = |part: usize| (dots[part * tile.rows + row][column] - zeros[column] * offset(part)) as f32;
            let whole = if tile.parts == 2 { part(0).mul_add(BASE, part(1)) } else { part(0) };
            out[column] = whole.mul_add(scales[column] * scale, out[column]);
        }
    }
}

/// Adds `128 · Σ x`, which codes less 128 left out.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), expect(dead_code))]
#[inline(always)]
pub(super) fn put_back(tile: &Tile<'_>, panel: &Panel<'_>, group: usize, dots: &mut [[i32; PANEL]]) {
    for part in 0..tile.parts {
        for row in 0..tile.rows {
            let sum = tile.sums[(row * tile.parts + part) * panel.groups + group];
            dots[part * tile.rows + row].iter_mut().for_each(|dot| *dot += 128 * sum);
        }
    }
}
