//! The rows of a pass on a GPU: one table of integers, uploaded in one piece or written there.

use super::{AttentionMask, PassRows};
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::ops::Range;

/// Where the tokens begin.
const TOKENS: usize = 4;

/// The numbers of rows that passes are padded to, so that a device sees few distinct shapes.
const SIZES: [usize; 6] = [1, 8, 16, 32, 64, LONG];

/// More rows of one chain are a long one.
const LONG: usize = 128;

/// The rows of one pass as kernels read them.
///
/// The table is `[prefix, first, rows, 0 | tokens[R] | positions[R] | a section per distinct window]` with `R` rows
/// after padding; a section is `[least start | starts[R] | bits[R · W]]`: row `i` sees the committed slots from
/// `starts[i]` on, and uncommitted row `j` if bit `j` of its `W` words is set. Rows beyond `rows` are padding: they
/// write nothing to a cache, and their results are not used.
#[derive(Clone, Debug)]
pub struct PassTable {
    table: Tensor<1, Int>,
    /// Where it begins in that tensor.
    start: usize,
    rows: usize,
    padded: usize,
    words: usize,
    windows: Vec<Option<usize>>,
    slots: usize,
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "read by the launches of attention"))]
    is_long_chain: bool,
}

impl PassTable {
    /// The number of rows that `rows` are padded to: 1, 8, 16, 32, 64 or a multiple of 128.
    pub fn padded(rows: usize) -> usize {
        SIZES.into_iter().find(|&size| size >= rows).unwrap_or(rows.next_multiple_of(128))
    }

    /// The table of a pass over `tokens` after `prefix` committed rows, with a section for each of `windows`, which are
    /// distinct. `slots` bounds the slots that will ever be read with it.
    pub fn new(
        tokens: &[u32],
        mask: &AttentionMask,
        prefix: usize,
        slots: usize,
        windows: &[Option<usize>],
        device: &Device,
    ) -> Self {
        Self::of(tokens, &PassRows::new(prefix, mask), slots, windows, device)
    }

    /// The table of a pass over rows with positions of their own; otherwise as [`Self::new`]. Without tokens, the
    /// table's are zero.
    pub fn of(tokens: &[u32], pass: &PassRows<'_>, slots: usize, windows: &[Option<usize>], device: &Device) -> Self {
        let (rows, padded) = (pass.mask.rows(), Self::padded(pass.mask.rows()));
        let words = (pass.mask.first() + padded).div_ceil(32);
        let values = table(tokens, pass, windows);
        let size = values.len();
        let table = Tensor::from_data(TensorData::new(values, [size]), device);
        let is_long_chain = padded > LONG && matches!(pass.mask, AttentionMask::Causal { .. });
        Self { table, start: 0, rows, padded, words, windows: windows.into(), slots, is_long_chain }
    }

    /// Joins tables in one tensor, one after the other, for kernels that serve several sequences.
    #[must_use]
    pub fn joined(tables: &[&Self]) -> Vec<Self> {
        let own = |table: &&Self| table.table.clone().narrow(0, table.start, table.len());
        let all = Tensor::cat(tables.iter().map(own).collect(), 0);
        let mut start = 0;
        let place = |table: &&Self| {
            let joined = Self { table: all.clone(), start, ..(*table).clone() };
            start += table.len();
            joined
        };
        tables.iter().map(place).collect()
    }

    /// Where the table begins in its tensor: 0 unless it is [`Self::joined`].
    pub fn start(&self) -> usize {
        self.start
    }

    /// Entries of the table.
    pub(crate) fn len(&self) -> usize {
        self.sections() + self.windows.len() * self.section_size()
    }

    /// A copy on another device.
    #[must_use]
    pub fn to_device(&self, device: &Device) -> Self {
        Self { table: self.table.clone().to_device(device), ..self.clone() }
    }

    /// The tensor with the table, for kernels that write it.
    pub fn table(&self) -> &Tensor<1, Int> {
        &self.table
    }

    /// Rows of the pass.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows with padding.
    pub fn padded_rows(&self) -> usize {
        self.padded
    }

    /// True for a chain of more than 128 rows, such as a prompt.
    #[cfg(feature = "gpu")]
    pub(crate) fn is_long_chain(&self) -> bool {
        self.is_long_chain
    }

    /// Words of bits per row.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Slots that are read at most.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The tokens, padding included, `[R]`.
    pub fn tokens(&self) -> Tensor<1, Int> {
        self.table.clone().narrow(0, self.start + TOKENS, self.padded)
    }

    /// Where a window's section begins.
    ///
    /// # Panics
    /// If the table was made without that window.
    pub fn section(&self, window: Option<usize>) -> usize {
        let index = self.windows.iter().position(|&known| known == window).expect("a section for every window");
        self.sections() + index * self.section_size()
    }

    /// Where the first section begins.
    pub fn sections(&self) -> usize {
        TOKENS + 2 * self.padded
    }

    /// Entries of a section.
    pub fn section_size(&self) -> usize {
        section_size(self.padded, self.words)
    }

    /// The windows of the sections, in their order.
    pub fn windows(&self) -> &[Option<usize>] {
        &self.windows
    }

    /// Copy of the table for a longer context: at most `slots` slots will be read with it.
    pub fn with_slots(&self, slots: usize) -> Self {
        Self { slots, ..self.clone() }
    }
}

fn section_size(padded: usize, words: usize) -> usize {
    1 + padded * (1 + words)
}

/// The table's values.
fn table(tokens: &[u32], pass: &PassRows<'_>, windows: &[Option<usize>]) -> Vec<i32> {
    let PassRows { prefix, mask, .. } = *pass;
    let (rows, padded) = (mask.rows(), PassTable::padded(mask.rows()));
    let words = (mask.first() + padded).div_ceil(32);
    let mut table = vec![prefix as i32, mask.first() as i32, rows as i32, 0];
    table.extend(tokens.iter().map(|&token| token as i32));
    table.resize(TOKENS + padded, 0);
    table.extend((0..rows).map(|row| pass.position(row) as i32));
    table.resize(TOKENS + 2 * padded, prefix as i32);
    for &window in windows {
        let start = |row| pass.view(row, window).first as i32;
        let first = table.len();
        table.push((0..rows).map(start).min().unwrap_or(0));
        table.extend((0..rows).map(start));
        table.resize(first + 1 + padded, prefix as i32);
        let bits = table.len();
        table.resize(first + section_size(padded, words), 0);
        for row in 0..rows {
            let seen = pass.view(row, window).skip..mask.count(row);
            let words = &mut table[bits + row * words..][..words];
            match mask {
                AttentionMask::Causal { .. } => set_bits(words, seen),
                _ => seen.map(|index| mask.nth(row, index)).for_each(|seen| words[seen / 32] |= 1 << (seen % 32)),
            }
        }
    }
    table
}

/// Sets neighbouring bits, a word at a time.
fn set_bits(words: &mut [i32], bits: Range<usize>) {
    for (at, word) in words.iter_mut().enumerate() {
        let place = |bit: usize| bit.clamp(at * 32, at * 32 + 32) - at * 32;
        let (from, to) = (place(bits.start), place(bits.end));
        *word |= (((1u64 << (to - from)) - 1) << from) as i32;
    }
}

#[cfg(test)]
mod tests;
