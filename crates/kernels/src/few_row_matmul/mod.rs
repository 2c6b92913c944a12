//! `y = x · W` for one to a few hundred rows of `x`, with `W` frozen and packed once.
//!
//! A decode step multiplies very few rows by every weight of the model, so it is bound by reading the weights. They are
//! stored in panels of [`PANEL`] output columns, `[ceil(d_out / PANEL)][d_in][PANEL]`, so that a panel is one
//! contiguous stream that is read once for some rows, with all accumulators in registers.
//!
//! Each output element is one chain of fused multiply-adds over `d_in` in increasing order, whatever the number of
//! rows, threads or the instruction set. (Pairs of `bf16` exist on some processors only; there too a row does not
//! depend on its company.)

mod element;
mod kernel;
mod launch;
mod packed;
mod pairs;
mod prefilter;
pub mod reference;

pub use kernel::few_row_matmul;
pub use launch::matmul;
pub(crate) use launch::matrix;
pub(crate) use packed::pages;
pub use packed::{PackError, Packed, RowSource, WeightDtype};
pub use prefilter::Int8Prefilter;

/// Rows of so many inputs that are laid side by side at once, where tiles are tall.
pub(crate) fn rows_side_by_side(d_in: usize) -> usize {
    (SIDE_BY_SIDE / d_in.max(1) / TALLEST).clamp(4, 16) * TALLEST
}

/// Rows of the tallest tile.
const TALLEST: usize = 15;
/// Values of `x` that are laid side by side at once: 4 MiB, or some tiles.
const SIDE_BY_SIDE: usize = 1 << 20;
/// Output columns per panel.
pub const PANEL: usize = 32;
/// Output columns that are computed as one piece of work.
const PAIR: usize = 2 * PANEL;
/// Rows that share one pass over a panel; where registers are wide, more (`tall.rs`).
const TILE_ROWS: usize = 6;
