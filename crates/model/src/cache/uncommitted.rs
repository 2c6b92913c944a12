//! The uncommitted rows of a cache, as passes left them.

use super::error::CacheError;
use gorgon_kernels::tree_attention::AttentionMask;
use std::ops::Range;

/// The uncommitted rows as passes left them.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    /// Position of each row, counted from the committed ones.
    positions: Vec<usize>,
    /// Whether a pass gave positions.
    explicit: bool,
    /// Number of layers that have run on each row.
    layers: Vec<usize>,
    /// Whether sub-layers were left out.
    partial: bool,
}

impl Uncommitted {
    /// Positions of all rows, where a pass gave some.
    pub fn positions(&self) -> Option<&[usize]> {
        self.explicit.then_some(self.positions.as_slice())
    }

    /// Takes note of the rows of a pass.
    pub fn begin(&mut self, mask: &AttentionMask, positions: Option<&[usize]>, layers: &Range<usize>, partial: bool) {
        self.partial = partial;
        let (first, rows) = (mask.first(), mask.rows());
        self.explicit |= positions.is_some();
        let size = self.positions.len().max(first + rows);
        self.positions.resize(size, 0);
        self.layers.resize(size, 0);
        for row in 0..rows {
            self.positions[first + row] = positions.map_or_else(|| mask.count(row) - 1, |positions| positions[row]);
            self.layers[first + row] = layers.end;
        }
    }

    /// Fails if a pass resumes from rows that have not come so far, or sees earlier rows without its layers or with
    /// sub-layers left out that it has.
    pub fn check_pass(&self, mask: &AttentionMask, layers: &Range<usize>, partial: bool) -> Result<(), CacheError> {
        if partial != self.partial && (mask.first() > 0 || layers.start > 0) {
            return Err(CacheError::Partial);
        }
        let rows = if layers.start == 0 { mask.first() } else { mask.uncommitted() };
        for row in 0..rows {
            let ran = self.layers.get(row).copied().unwrap_or(0);
            let needed = if row < mask.first() { layers.end } else { layers.start };
            if ran < needed {
                return Err(CacheError::Unfinished { row, ran, layers: needed });
            }
        }
        Ok(())
    }

    /// Drops the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.positions.truncate(rows);
        self.layers.truncate(rows);
        self.explicit &= rows > 0;
        self.partial &= rows > 0;
    }

    /// Fails if a row of a path was computed for another position or by some of the layers only. Rows that were not
    /// noted (a draft layer's) are what their caller says.
    pub fn check_path(&self, path: &[usize], layers: usize) -> Result<(), CacheError> {
        if self.partial {
            return Err(CacheError::Partial);
        }
        for (committed, &row) in path.iter().enumerate() {
            if let Some(&ran) = self.layers.get(row).filter(|&&ran| ran < layers) {
                return Err(CacheError::Unfinished { row, ran, layers });
            }
            if let Some(&position) = self.positions.get(row).filter(|&&p| self.explicit && p != committed) {
                return Err(CacheError::Position { row, position, committed });
            }
        }
        Ok(())
    }
}
