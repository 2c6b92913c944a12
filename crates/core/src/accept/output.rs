//! The target's output for a verified tree.

use super::Rows;
use crate::{Token, dist::Row};

/// How much of the target's output an acceptance rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetOutput {
    /// The argmax token of every node.
    Argmax,
    /// All logits of every node.
    Logits,
}

/// The target's output after each node of a verified tree.
#[derive(Clone, Copy, Debug)]
pub enum TargetRows<'a> {
    /// Argmax tokens `[nodes]`, for rules that need no more.
    Argmax(&'a [Token]),
    /// Logits `[nodes, vocab]`.
    Logits {
        /// Row-major logits.
        data: &'a [f32],
        /// Row length.
        vocab: usize,
    },
    /// Probabilities `[nodes, vocab]`.
    Probabilities {
        /// Row-major probabilities.
        data: &'a [f64],
        /// Row length.
        vocab: usize,
    },
}

/// Why a rule cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The rule needs logits.
    #[error("the acceptance rule needs the target's logits at tree node {node}, but only its argmax token is known")]
    NoLogits {
        /// The node.
        node: usize,
    },
    /// The target verified another tree.
    #[error("the target's output ends before node {node} of the verified tree")]
    Missing {
        /// The node.
        node: usize,
    },
}

impl<'a> TargetRows<'a> {
    /// The row of `node`.
    ///
    /// # Shapes
    /// `[vocab]`.
    ///
    /// # Errors
    /// If there is none, or only argmax tokens are known.
    pub fn row(&self, node: usize) -> Result<Row<'a>, TargetError> {
        let rows = match *self {
            Self::Argmax(_) => return Err(TargetError::NoLogits { node }),
            Self::Logits { data, vocab } => Rows::Logits { data, vocab },
            Self::Probabilities { data, vocab } => Rows::Probabilities { data, vocab },
        };
        rows.row(node).ok_or(TargetError::Missing { node })
    }

    /// The most likely token after `node`, the lowest id on ties.
    ///
    /// # Errors
    /// If the output ends before `node`.
    pub fn argmax(&self, node: usize) -> Result<Token, TargetError> {
        match self {
            Self::Argmax(tokens) => tokens.get(node).copied().ok_or(TargetError::Missing { node }),
            _ => Ok(self.row(node)?.argmax() as Token),
        }
    }
}

impl<'a> From<Rows<'a>> for TargetRows<'a> {
    fn from(rows: Rows<'a>) -> Self {
        match rows {
            Rows::Logits { data, vocab } => Self::Logits { data, vocab },
            Rows::Probabilities { data, vocab } => Self::Probabilities { data, vocab },
        }
    }
}

impl<'a> From<Row<'a>> for TargetRows<'a> {
    /// The output at a lone root.
    fn from(row: Row<'a>) -> Self {
        match row {
            Row::Logits(data) => Self::Logits { data, vocab: data.len() },
            Row::Probabilities(data) => Self::Probabilities { data, vocab: data.len() },
        }
    }
}

#[cfg(test)]
mod tests;
