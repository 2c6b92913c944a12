//! Candidates: tokens that a drafter proposes after nodes.

use crate::{PooledVec, Token, pooled_vec::recycle};

recycle!(Candidate);

/// A token that may follow a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The proposed token.
    pub token: Token,
    /// The drafter's probability of `token` given the path to its parent, in `[0, 1]`; 1 where nobody asked
    /// ([`TreeBuilder::ranks_at`](super::TreeBuilder::ranks_at)) and it was not computed.
    pub probability: f64,
}

/// The candidates of several nodes, a row for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateRows {
    candidates: PooledVec<Candidate>,
    /// Where each row ends.
    ends: PooledVec<usize>,
}

impl CandidateRows {
    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = Candidate>) {
        self.candidates.extend(row);
        self.ends.push(self.candidates.len());
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A row; empty if there is none of this number.
    pub fn row(&self, row: usize) -> &[Candidate] {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let span = start.zip(self.ends.get(row)).and_then(|(start, &end)| self.candidates.get(start..end));
        span.unwrap_or(&[])
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[Candidate]> {
        (0..self.len()).map(|row| self.row(row))
    }
}

impl<R: IntoIterator<Item = Candidate>> FromIterator<R> for CandidateRows {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        let mut all = Self::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

#[cfg(test)]
mod tests;
