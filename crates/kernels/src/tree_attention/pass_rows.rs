//! The rows of one pass over a cache: what each of them sees, and where it stands.

use super::AttentionMask;

/// One sequence's rows in a pass, in front of one layer's cache.
#[derive(Clone, Copy, Debug)]
pub struct PassRows<'a> {
    /// Committed rows: slot `i` below holds position `i`.
    pub prefix: usize,
    /// Which uncommitted rows each row sees.
    pub mask: &'a AttentionMask,
    /// Positions of all uncommitted rows, counted from `prefix`, those of earlier passes included. `None`: a row's
    /// position is one less than the number of uncommitted rows that it sees.
    pub positions: Option<&'a [usize]>,
}

/// The slots that one row sees, in the order of their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowView {
    /// The first committed slot that is seen; those up to the prefix's end follow.
    pub first: usize,
    /// Number of the mask's entries that lie in front of the window.
    pub skip: usize,
}

impl<'a> PassRows<'a> {
    /// Rows whose positions are their depths.
    pub fn new(prefix: usize, mask: &'a AttentionMask) -> Self {
        Self { prefix, mask, positions: None }
    }

    /// Position of a row.
    pub fn position(&self, row: usize) -> usize {
        match (self.mask, self.positions) {
            // Of rows that read another text nothing reads the positions.
            (AttentionMask::Committed { rows }, _) => (self.prefix + row).saturating_sub(*rows),
            (mask, Some(positions)) => self.prefix + positions[mask.first() + row],
            (mask, None) => self.prefix + mask.count(row) - 1,
        }
    }

    /// Position of the `index`-th uncommitted row that a row sees.
    #[inline(always)]
    pub fn seen_position(&self, row: usize, index: usize) -> usize {
        self.prefix + self.positions.map_or(index, |positions| positions[self.mask.nth(row, index)])
    }

    /// The slot of the first row.
    pub fn first_slot(&self) -> usize {
        match self.mask {
            AttentionMask::Committed { rows } => self.prefix.saturating_sub(*rows),
            mask => self.prefix + mask.first(),
        }
    }

    /// Rows visible to a row through a window of so many positions, its own included.
    pub fn view(&self, row: usize, window: Option<usize>) -> RowView {
        let start = (self.position(row) + 1).saturating_sub(window.unwrap_or(usize::MAX));
        let first = start.min(self.prefix);
        let skip = match self.positions {
            None => start - first,
            Some(positions) => {
                let before = |&index: &usize| self.prefix + positions[self.mask.nth(row, index)] < start;
                (0..self.mask.count(row)).take_while(before).count()
            }
        };
        RowView { first, skip }
    }

    /// Slots in use once this pass is done.
    pub fn slots(&self) -> usize {
        self.prefix + self.mask.uncommitted()
    }
}

#[cfg(test)]
mod tests;
