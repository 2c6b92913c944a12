//! The CPU kernel: one pass finds the greatest entries, a second one sums the exponentials.

use crate::isa::per_isa;
use crate::softmax::normaliser;
use crate::{Isa, lanes};

/// Entries that are compared with the least of the greatest at once.
const BLOCK: usize = 64;

/// The `count` greatest entries of a row with their probabilities, in `top`; see [`super::top_rows`].
pub fn top_row(isa: Isa, row: &[f32], count: usize, top: &mut Vec<(u32, f32)>) {
    greatest(isa, row, count.min(row.len()), top);
    let (max, sum) = normaliser(row);
    top.iter_mut().for_each(|entry| entry.1 = lanes::exp(entry.1 - max) / sum);
}

per_isa! {
    /// Entries, greatest first, in `top`.
    pub(crate) fn greatest(row: &[f32], count: usize, top: &mut Vec<(u32, f32)>) {
        top.clear();
        top.reserve(count + 1);
        for (block, values) in row.chunks(BLOCK).enumerate() {
            // Most blocks hold nothing that is wanted, which their greatest value tells.
            if top.len() == count && top.last().is_none_or(|least| lanes::max(values) <= least.1) {
                continue;
            }
            for (i, &value) in values.iter().enumerate() {
                let value = if value.is_nan() { f32::NEG_INFINITY } else { value };
                if top.len() == count && value <= top[count - 1].1 {
                    continue;
                }
                // A later entry goes behind its equals.
                let place = top.partition_point(|&(_, other)| other >= value);
                top.insert(place, ((block * BLOCK + i) as u32, value));
                top.truncate(count);
            }
        }
    }
}

#[cfg(test)]
mod tests;
