//! The top entries of each row of logits, with their probabilities: what a drafter's children are made of.

mod kernel;
pub mod reference;

pub(crate) use kernel::greatest;
pub use kernel::top_row;

use crate::{Isa, team};
use gorgon_core::PooledVec;

/// Multiply-adds that a logit takes as long as: comparing it, and its exponential.
const WORK: usize = 8;

/// Entries of several rows, `(index, value)`.
#[derive(Clone, Debug)]
pub struct TopRows {
    /// As many for each row as the longest one has.
    entries: PooledVec<(u32, f32)>,
    longest: usize,
    counts: PooledVec<usize>,
}

impl TopRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// A row.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn row(&self, row: usize) -> &[(u32, f32)] {
        &self.entries[row * self.longest..][..self.counts[row]]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[(u32, f32)]> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// The `widths[i]` greatest logits of each row `i`, greatest first, the lower index first on ties:
/// `(index, probability)` with `probability = softmax(row)[index]`. NaN counts as negative infinity when rows are
/// ordered; a row that holds one, or an infinity, has probabilities that are no numbers.
///
/// # Shapes
/// `logits [rows, vocab]`, `widths [rows]`.
pub fn top_rows(logits: &[f32], vocab: usize, widths: &[usize]) -> TopRows {
    let (isa, rows) = (Isa::detect(), logits.len() / vocab.max(1));
    let counts: PooledVec<usize> = widths.iter().take(rows).map(|&width| width.min(vocab)).collect();
    let longest = counts.iter().copied().max().unwrap_or(0);
    let mut entries = PooledVec::of((0, 0.0), counts.len() * longest);
    if longest > 0 {
        team::chunks(&mut entries, longest, WORK * logits.len(), |row, entries| {
            let mut top = PooledVec::new();
            top_row(isa, &logits[row * vocab..(row + 1) * vocab], counts[row], &mut top);
            entries[..top.len()].copy_from_slice(&top);
        });
    }
    TopRows { entries, longest, counts }
}
