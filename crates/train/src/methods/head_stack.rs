//! The interface of methods with a loss per head.

use super::decoding::Load;
use crate::error::TrainError;
use burn::tensor::Tensor;
use gorgon_core::tree::{FixedTree, PublishedTree, TreeBuilder};
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::{HeadOutput, HeadScale};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::Table;
use serde_json::Value;

/// Heads `k = 1..K`, each of which guesses the token `k` places beyond the next one and has a loss of its own.
pub trait HeadStack: Send + Sync {
    /// `K`.
    fn count(&self) -> usize;

    /// Weight of head `head` (from 0) in the loss.
    fn weight(&self, head: usize) -> f64;

    /// All tensors.
    fn parameters(&self) -> Vec<ParameterSpec>;

    /// The `config.json` beside them.
    fn document(&self, base: &str) -> Value;

    /// How many of the tokens after a position heads read.
    fn following(&self) -> usize;

    /// Whether heads read every position of a conversation, not only those with a label.
    fn reads_everything(&self) -> bool;

    /// Losses and ranks of every head and, where `scales` are given, the gradient of every parameter.
    fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>);

    /// Values that each row has at work, roughly. Off the host, heads are computed side by side, and all of them count.
    fn values_per_row(&self, on_host: bool) -> usize;

    /// Rows of logits in memory at once.
    fn chunk_rows(&self) -> usize;

    /// Makes a drafter of heads in files.
    fn load() -> Load;

    /// The tree that heads of this kind are decoded with before one is calibrated. Evaluations use the same tree.
    ///
    /// # Errors
    /// When it cannot be built: a defect of this program.
    fn tree() -> Result<Box<dyn TreeBuilder>, TrainError> {
        let published: PublishedTree = "mc_sim_7b_63".parse().map_err(|error| TrainError::Data(format!("{error}")))?;
        Ok(Box::new(FixedTree::new(published.shape().clone())))
    }
}

#[cfg(test)]
mod tests;
