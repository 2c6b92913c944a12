//! The CPU kernels: panels streamed once for a tile of rows, integer sums in registers.

use self::output::Output;
use super::activations::{IntegerRows, TALLEST, Tile};
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
    if activations == Activations::Exact || w.has_numbers() {
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
        rows.set(isa, x, w, activations, amx::takes(isa, w, x.len() / w.d_in()));
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
        if tile.by_rows {
            // SAFETY: rows lie in one piece only where the processor has tiles and groups are whole ones.
            return unsafe { amx::add(tile, panel, sums) };
        }
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

#[cfg_attr(not(any(target_arch = "x86_64", test)), expect(dead_code))]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod exact;
mod finish;
#[cfg(target_arch = "aarch64")]
mod neon;
mod output;
mod portable;

#[cfg(test)]
mod tests;
