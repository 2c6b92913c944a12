//! What heads with a loss each are fitted to.

use crate::medusa::HeadLabels;
use burn::tensor::{Int, Tensor, TensorData};
use std::ops::Range;

/// What heads are fitted to: states of the backbone, and what came after them.
#[derive(Clone, Debug)]
pub struct HeadBatch {
    /// The backbone's states, sequence after sequence, `[rows, d]`: those with a label, or, where heads read every
    /// position before or compare with a later one, all of a sequence up to the last one that counts.
    pub states: Tensor<2>,
    /// Entry `j`: the embeddings of the tokens `j + 1` places after each row, `[rows, d]`; anything where the text has
    /// ended.
    pub following: Vec<Tensor<2>>,
    /// Rows of each sequence.
    pub segments: Vec<Range<usize>>,
    /// The labels of each head.
    pub labels: Vec<HeadLabels>,
}

/// The rows `later` places after those of a head's labels.
pub(crate) fn rows_of(labels: &HeadLabels, later: usize, concat_columns: &Tensor<2>) -> Tensor<1, Int> {
    let rows: Vec<i32> = labels.rows.iter().map(|&row| row as i32 + later as i32).collect();
    let n = rows.len();
    Tensor::from_data(TensorData::new(rows, [n]), &concat_columns.device())
}
