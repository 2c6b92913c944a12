//! The likeliest entries of each row of logits, with their probabilities: what a drafter's children are made of.

mod kernel;
pub mod reference;

pub(crate) use kernel::greatest;
pub use kernel::top_row;

use crate::Isa;
use rayon::prelude::*;

/// Logits worth waking a thread for.
const PARALLEL: usize = 1 << 15;

/// The `widths[i]` greatest logits of each row `i`, greatest first, the lower index first on ties:
/// `(index, probability)` with `probability = softmax(row)[index]`. NaN counts as negative infinity when rows are
/// ordered; a row that holds one, or an infinity, has probabilities that are no numbers.
///
/// # Shapes
/// `logits [rows, vocab]`, `widths [rows]`.
pub fn top_rows(logits: &[f32], vocab: usize, widths: &[usize]) -> Vec<Vec<(u32, f32)>> {
    let isa = Isa::detect();
    let top = |(row, &width): (&[f32], &usize)| {
        let mut top = vec![];
        top_row(isa, row, width, &mut top);
        top
    };
    let rows = logits.chunks_exact(vocab.max(1));
    if logits.len() < PARALLEL {
        return rows.zip(widths).map(top).collect();
    }
    let rows = logits.par_chunks_exact(vocab.max(1));
    rows.zip(widths).map(top).collect()
}
