//! Rows: one distribution per tree node.

use crate::dist::Row;

/// One distribution per tree node, over the vocabulary.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Logits `[nodes, vocab]`; a softmax makes them probabilities.
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

impl<'a> Rows<'a> {
    /// The row of `node`; `None` if the data end before it.
    ///
    /// # Shapes
    /// `[vocab]`.
    pub fn row(&self, node: usize) -> Option<Row<'a>> {
        let span = |vocab: usize| Some(node.checked_mul(vocab)?..node.checked_add(1)?.checked_mul(vocab)?);
        match *self {
            Self::Logits { data, vocab } => data.get(span(vocab)?).map(Row::Logits),
            Self::Probabilities { data, vocab } => data.get(span(vocab)?).map(Row::Probabilities),
        }
    }
}
