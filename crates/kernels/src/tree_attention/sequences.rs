//! Several sequences in one launch: each has a cache of its own, and its rows of a pass lie beside those of the others.

use super::PassTable;
use crate::device;
use burn::tensor::Tensor as Burn;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Most sequences of a launch: each adds a tensor to a kernel's arguments.
pub(crate) const MOST: usize = 8;
/// Beyond every row and tile: where a place among a kernel's arguments has no sequence.
const NEVER: usize = i32::MAX as usize;

/// One sequence, as a kernel reads it.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Share {
    /// Where its pass table begins.
    pub table: usize,
    /// Its first row among those of all sequences.
    pub first_row: usize,
    /// Rows with padding.
    pub rows: usize,
    /// Words of bits of a row.
    pub words: usize,
    /// Slots of its cache.
    pub capacity: usize,
    /// Where the section of a window begins in its table.
    pub section: usize,
    /// Slots of a split.
    pub split: usize,
    /// Number of splits.
    pub splits: usize,
    /// Its first tile of queries among those of the launch.
    pub first_tile: usize,
    /// 1 where row `i` sees the first `i + 1` rows and all committed ones.
    pub chain: usize,
}

/// One sequence, on the host; fields as of [`Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub table: usize,
    pub first_row: usize,
    pub rows: usize,
    pub words: usize,
    pub capacity: usize,
    pub section: usize,
    pub split: usize,
    pub splits: usize,
    pub first_tile: usize,
    pub chain: usize,
}

impl Part {
    const ABSENT: Self = Self {
        table: 0,
        first_row: NEVER,
        rows: 0,
        words: 0,
        capacity: 0,
        section: 0,
        split: 1,
        splits: 0,
        first_tile: NEVER,
        chain: 0,
    };

    fn argument(self) -> ShareLaunch {
        ShareLaunch::new(
            self.table,
            self.first_row,
            self.rows,
            self.words,
            self.capacity,
            self.section,
            self.split,
            self.splits,
            self.first_tile,
            self.chain,
        )
    }
}

/// Sequences of one launch with their caches.
pub(crate) struct Sequences {
    pub parts: Vec<Part>,
    pub caches: Vec<CubeTensor>,
}

impl Sequences {
    /// The sequences of a pass, in as many launches as they need.
    ///
    /// # Panics
    /// If there are not as many caches as tables, or several tables are not joined ([`PassTable::joined`]).
    pub fn launches(caches: &[&Burn<4>], tables: &[&PassTable]) -> Vec<Self> {
        assert_eq!(caches.len(), tables.len(), "a cache for each sequence");
        assert!(
            tables.windows(2).all(|pair| pair[0].start() < pair[1].start()),
            "tables of several sequences are joined"
        );
        let mut first_row = 0;
        let mut parts = vec![];
        for (cache, table) in caches.iter().zip(tables) {
            let (rows, words, capacity) = (table.padded_rows(), table.words(), cache.dims()[2]);
            parts.push(Part { table: table.start(), first_row, rows, words, capacity, ..Part::ABSENT });
            first_row += rows;
        }
        let each = caches.chunks(MOST).zip(parts.chunks(MOST));
        each.map(|(caches, parts)| Self {
            parts: parts.to_vec(),
            caches: caches.iter().map(|cache| device::in_place(cache)).collect(),
        })
        .collect()
    }

    /// Rows with padding.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Number of sequences that a kernel is compiled for, so that there are few kernels: 1, 2, 4 or 8.
    pub fn places(&self) -> usize {
        self.parts.len().next_power_of_two()
    }

    /// A kernel's arguments; places without a sequence repeat the last cache, and nothing reads it there.
    pub fn shares(&self) -> SequenceArg<Share> {
        let absent = std::iter::repeat(&Part::ABSENT);
        self.parts.iter().chain(absent).take(self.places()).map(|part| part.argument()).collect()
    }

    /// The caches as a kernel's arguments.
    pub fn cache_args(&self) -> impl Iterator<Item = TensorArg> {
        (0..self.places()).map(|i| device::arg(&self.caches[i.min(self.caches.len() - 1)]))
    }
}
