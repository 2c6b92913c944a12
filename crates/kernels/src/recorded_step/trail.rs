//! Committed tokens of a step, as a pass of a drafter that reads them.

use crate::tree_attention::{AttentionMask, PassTable};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// A causal pass over the tokens that a step emitted, of which the device says how many there are, and where the states
/// before them lie among the rows of the step's verification.
#[derive(Clone, Debug)]
pub struct Trail {
    pub(super) pass: PassTable,
    /// `[R + 1]`: the accepted node of each row, and the place of the last row.
    pub(super) rows: Tensor<1, Int>,
}

impl Trail {
    /// Room for paths of at most `longest` nodes; rows see as far back as `window` says.
    pub fn new(longest: usize, window: Option<usize>, slots: usize, device: &Device) -> Self {
        let visible = AttentionMask::Causal { rows: longest };
        let pass = PassTable::new(&vec![0; longest], &visible, 0, slots, &[window], device);
        let size = pass.padded_rows() + 1;
        Self { pass, rows: Tensor::from_data(TensorData::new(vec![0i32; size], [size]), device) }
    }

    /// The pass.
    pub fn pass(&self) -> &PassTable {
        &self.pass
    }

    /// The accepted nodes, padding included, `[R]`.
    pub fn nodes(&self) -> Tensor<1, Int> {
        self.rows.clone().narrow(0, 0, self.pass.padded_rows())
    }

    /// The row of the token that was emitted last, `[1]`.
    pub fn last(&self) -> Tensor<1, Int> {
        self.rows.clone().narrow(0, self.pass.padded_rows(), 1)
    }
}
