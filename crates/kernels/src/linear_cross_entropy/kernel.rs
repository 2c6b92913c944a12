//! The CPU kernel: a row of logits becomes its gradient in place.

use crate::{Isa, isa::per_isa, lanes};
use rayon::prelude::*;

/// Turns each row of `logits` into `scale · (softmax − e_label)`, and tells its loss and how many logits beat the
/// label's (ties go to the lower token id, so rank 0 is what greedy decoding picks).
///
/// `logits [rows, V]`; labels, scales, losses and ranks one per row.
pub fn cross_entropy_rows(
    isa: Isa,
    logits: &mut [f32],
    labels: &[u32],
    scales: &[f32],
    losses: &mut [f32],
    ranks: &mut [u32],
) {
    let vocab = logits.len() / labels.len().max(1);
    let rows = logits.par_chunks_exact_mut(vocab.max(1));
    rows.zip(labels).zip(scales).zip(losses).zip(ranks).for_each(|((((row, &label), &scale), loss), rank)| {
        (*loss, *rank) = one_row(isa, row, label as usize, scale);
    });
}

per_isa! {
    fn one_row(row: &mut [f32], label: usize, scale: f32) -> (f32, u32) {
        // Each pass over the row is one that compilers turn into vectors: a maximum and a count at once are not.
        let own = row[label];
        let max = lanes::max(row);
        let above = row[..label].iter().map(|&x| u32::from(x >= own)).sum::<u32>()
            + row[label..].iter().map(|&x| u32::from(x > own)).sum::<u32>();
        for x in row.iter_mut() {
            *x = lanes::exp(*x - max);
        }
        let sum = lanes::sum(row);
        let factor = scale / sum;
        for x in row.iter_mut() {
            *x *= factor;
        }
        row[label] -= scale;
        (sum.ln() + max - own, above)
    }
}
