//! Gumbel noise on rows of logits: their argmax is a sample, and the same one wherever the noise is the same.

use crate::tree_attention::PassTable;
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::accept::noise::Noise;

/// The key of a sequence's [`Noise`] on a device, `[2]`: its lower 32 bits and its upper ones. Another key may be
/// [written](super::overwrite) over it, so that a recorded step takes the noise of the sequence that it is replayed for.
#[derive(Clone, Debug)]
pub struct NoiseTable {
    key: Tensor<1, Int>,
}

impl NoiseTable {
    /// The key of a sequence.
    pub fn new(noise: Noise, device: &Device) -> Self {
        let key = noise.key();
        let halves = vec![key as u32 as i32, (key >> 32) as u32 as i32];
        Self { key: Tensor::from_data(TensorData::new(halves, [2]), device) }
    }

    /// The table.
    pub fn key(&self) -> &Tensor<1, Int> {
        &self.key
    }
}

/// Positions of the tokens that rows of logits are about: that of row `i` is `table[offset + i·stride] + 1 + i·step`.
#[derive(Clone, Debug)]
pub struct NoisePositions {
    pub(super) table: Tensor<1, Int>,
    pub(super) offset: usize,
    pub(super) stride: usize,
    pub(super) step: usize,
}

impl NoisePositions {
    /// A row for each node of a pass, about the token after the node.
    pub fn of_nodes(pass: &PassTable) -> Self {
        Self { table: pass.table().clone(), offset: pass.start() + 4 + pass.padded_rows(), stride: 1, step: 0 }
    }

    /// Row `i` is about the token `i + 1` places behind the root of a pass.
    pub fn behind_root(pass: &PassTable) -> Self {
        Self { table: pass.table().clone(), offset: pass.start(), stride: 0, step: 1 }
    }

    /// One row, about the token at a position above 0.
    pub fn at(position: usize, device: &Device) -> Self {
        let before = vec![position as i32 - 1];
        Self { table: Tensor::from_data(TensorData::new(before, [1]), device), offset: 0, stride: 0, step: 0 }
    }
}
