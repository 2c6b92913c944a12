//! The CPU kernels: panels streamed once for a tile of rows, integer sums in registers.

use super::activations::{BASE, IntegerRows, TALLEST, Tile};
use super::matrix::Panel;
use super::{Activations, PANEL, QuantisedMatrix};
use crate::Isa;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// `y = x · Wᵀ + bias`.
///
/// # Shapes
/// `x [rows, d_in]`, `bias [d_out]`, `y [rows, d_out]`.
///
/// # Panics
/// If a length does not fit.
pub fn quantised_matmul(
    isa: Isa,
    x: &[f32],
    w: &QuantisedMatrix,
    activations: Activations,
    bias: Option<&[f32]>,
    y: &mut [f32],
) {
    // SAFETY: a product writes numbers only.
    write_product(isa, x, w, activations, bias, unsafe { crate::host::as_unwritten(y) });
}

/// [`quantised_matmul`] into memory that may hold nothing yet; all of `y` is written.
pub(super) fn write_product(
    isa: Isa,
    x: &[f32],
    w: &QuantisedMatrix,
    activations: Activations,
    bias: Option<&[f32]>,
    y: &mut [MaybeUninit<f32>],
) {
    let (d_in, d_out) = (w.d_in(), w.d_out());
    let rows = x.len() / d_in;
    assert!(x.len() == rows * d_in && y.len() == rows * d_out, "{} values against {w:?}", x.len());
    assert!(bias.is_none_or(|b| b.len() == d_out), "a bias of another width than {w:?}");
    if activations == Activations::Exact {
        return exact::multiply(isa, x, w, &Output::new(d_out, bias, y));
    }
    let chunk = chunk_rows(w, activations);
    for (x, y) in x.chunks(chunk * d_in).zip(y.chunks_mut(chunk * d_out)) {
        multiply(isa, x, w, activations, &Output::new(d_out, bias, y));
    }
}

/// Bytes of rounded inputs that stay in the second-level cache beside a panel.
const CHUNK_BYTES: usize = 1 << 19;

/// Rows that are computed while a panel is in the cache: whole tiles.
fn chunk_rows(w: &QuantisedMatrix, activations: Activations) -> usize {
    let tall = TALLEST / activations.parts();
    (CHUNK_BYTES / w.d_in() / activations.parts()).max(tall) / tall * tall
}

/// The product with inputs in integers.
fn multiply(isa: Isa, x: &[f32], w: &QuantisedMatrix, activations: Activations, out: &Output<'_>) {
    thread_local! {
        /// Kept, so that steps after the first allocate nothing.
        static ROWS: RefCell<IntegerRows> = RefCell::default();
    }
    /// Panels of a task.
    const PANELS: usize = 2;
    let panels = w.d_out().div_ceil(PANEL);
    ROWS.with_borrow_mut(|rows| {
        rows.set(isa, x, w, activations);
        let rows = &*rows;
        // Integers are multiplied four at a time.
        crate::team::run(panels.div_ceil(PANELS), x.len() * w.d_out() / 4, |task| {
            for index in PANELS * task..panels.min(PANELS * (task + 1)) {
                let panel = w.panel(index);
                for tile in 0..rows.tiles() {
                    let tile = rows.tile(tile);
                    let mut sums = [[0f32; PANEL]; TALLEST];
                    let sums = &mut sums[..tile.rows];
                    add(isa, &tile, &panel, sums);
                    out.write(tile.first, index * PANEL, sums);
                }
            }
        });
    });
}

/// `sums[row] += row · panel` for the rows of a tile.
fn add(isa: Isa, tile: &Tile<'_>, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    assert!(tile.words.len() * super::LINE >= tile.rows * tile.parts * panel.codes.len() && sums.len() == tile.rows);
    #[cfg(target_arch = "x86_64")]
    {
        if isa.has_byte_products() {
            // SAFETY: the processor was asked, and the lengths were checked above.
            return unsafe { avx512::add(tile, panel, sums) };
        }
        if isa.kind() != crate::isa::Kind::Portable {
            // SAFETY: as above.
            return unsafe { avx2::add(tile, panel, sums) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        let _ = isa;
        // SAFETY: the processor was asked, and the lengths were checked above.
        return unsafe { neon::add(tile, panel, sums) };
    }
    let _ = isa;
    portable::add(tile, panel, sums);
}

/// Takes a group's integer sums into the rows' `f32` sums: the operations that every instruction set performs.
///
/// # Shapes
/// `dots [parts · rows][PANEL]`, sums of rounded inputs times codes.
#[inline(always)]
fn finish(tile: &Tile<'_>, panel: &Panel<'_>, group: usize, dots: &[[i32; PANEL]], sums: &mut [[f32; PANEL]]) {
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
fn put_back(tile: &Tile<'_>, panel: &Panel<'_>, group: usize, dots: &mut [[i32; PANEL]]) {
    for part in 0..tile.parts {
        for row in 0..tile.rows {
            let sum = tile.sums[(row * tile.parts + part) * panel.groups + group];
            dots[part * tile.rows + row].iter_mut().for_each(|dot| *dot += 128 * sum);
        }
    }
}

/// The output, written by one task per panel.
struct Output<'a> {
    y: *mut f32,
    rows: usize,
    d_out: usize,
    bias: Option<&'a [f32]>,
}
// SAFETY: each panel writes only its own columns, and each is handled by one task.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    fn new(d_out: usize, bias: Option<&'a [f32]>, y: &'a mut [MaybeUninit<f32>]) -> Self {
        Self { y: y.as_mut_ptr().cast(), rows: y.len() / d_out, d_out, bias }
    }

    /// Adds the bias to the sums of rows from `first` on, for columns from `column` on, and writes them.
    fn write(&self, first: usize, column: usize, sums: &mut [[f32; PANEL]]) {
        let columns = PANEL.min(self.d_out - column);
        assert!(first + sums.len() <= self.rows);
        for (row, sums) in sums.iter_mut().enumerate() {
            if let Some(bias) = self.bias {
                for (sum, b) in sums.iter_mut().zip(&bias[column..column + columns]) {
                    *sum += b;
                }
            }
            // SAFETY: the row and these columns lie within y, and belong to this task.
            unsafe {
                let to = self.y.add((first + row) * self.d_out + column);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exact;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

#[cfg(test)]
mod tests;
