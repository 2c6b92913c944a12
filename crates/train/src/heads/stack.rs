//! What methods with a loss per head have in common, and where they differ.

use super::decoding::Load;
use crate::error::TrainError;
use burn::tensor::Tensor;
use gorgon_core::tree::{FixedTree, PublishedTree, TreeBuilder};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::hydra::{HydraDrafter, HydraHeads, HydraModel};
use gorgon_draft::medusa::{HeadOutput, HeadScale, Heads, MedusaDrafter, MedusaModel};
use gorgon_draft::mtp::{MtpDrafter, MtpHeads, MtpModel};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::Table;
use serde_json::Value;

/// Heads `k = 1..K`, each of which guesses the token `k` places beyond the next one and has a loss of its own.
pub trait HeadStack: Send + Sync {
    /// `K`.
    fn count(&self) -> usize;

    /// What head `head` (from 0) counts in the loss.
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

    /// Values that each row has at work, roughly; where heads are computed side by side (not `on_host`), those of all.
    fn values_per_row(&self, on_host: bool) -> usize;

    /// Rows of logits in memory at once.
    fn chunk_rows(&self) -> usize;

    /// Makes a drafter of heads in files.
    fn load() -> Load;

    /// The tree that heads of this kind are decoded with before one is calibrated: evaluations take the same.
    ///
    /// # Errors
    /// When it is none: a defect of this program.
    fn tree() -> Result<Box<dyn TreeBuilder>, TrainError> {
        let published: PublishedTree = "mc_sim_7b_63".parse().map_err(|error| TrainError::Data(format!("{error}")))?;
        Ok(Box::new(FixedTree::new(published.shape().clone())))
    }
}

impl HeadStack for Heads {
    fn count(&self) -> usize {
        self.config.heads
    }

    fn weight(&self, head: usize) -> f64 {
        self.config.weight(head)
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.config.parameters(self.hidden_size, self.vocab_size)
    }

    fn document(&self, base: &str) -> Value {
        self.config.document(self.hidden_size, self.vocab_size, base)
    }

    fn following(&self) -> usize {
        0
    }

    fn reads_everything(&self) -> bool {
        false
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        Heads::losses(self, weights, lm_head, &batch.states, &batch.labels, scales)
    }

    fn values_per_row(&self, on_host: bool) -> usize {
        let heads = if on_host || self.config.own_lm_heads { 1 } else { self.config.heads };
        self.hidden_size * (3 + 6 * self.config.blocks) * heads
    }

    fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    fn load() -> Load {
        |folder, decoder| Ok(Box::new(MedusaDrafter::new(MedusaModel::load(folder, decoder)?)) as Box<dyn Drafter>)
    }
}

impl HeadStack for HydraHeads {
    fn count(&self) -> usize {
        self.shape.config.heads
    }

    fn weight(&self, head: usize) -> f64 {
        self.shape.config.weight(head)
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.shape.parameters()
    }

    fn document(&self, base: &str) -> Value {
        self.shape.document(base)
    }

    fn following(&self) -> usize {
        self.shape.config.heads
    }

    fn reads_everything(&self) -> bool {
        self.shape.config.prefix_attention || self.shape.config.teacher
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        HydraHeads::losses(self, weights, lm_head, batch, scales)
    }

    fn values_per_row(&self, _on_host: bool) -> usize {
        let (config, layer) = (&self.shape.config, &self.shape.layer);
        let of_layer = 10 * layer.hidden_size + 4 * layer.intermediate_size;
        let inputs = layer.hidden_size * (config.heads + 3 * (config.heads + 1) + 6 * config.blocks);
        inputs + if config.prefix_attention { 2 * of_layer } else { 0 }
    }

    fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    fn load() -> Load {
        |folder, decoder| Ok(Box::new(HydraDrafter::new(HydraModel::load(folder, decoder)?)) as Box<dyn Drafter>)
    }
}

impl HeadStack for MtpHeads {
    fn count(&self) -> usize {
        self.shape.config.depths
    }

    fn weight(&self, head: usize) -> f64 {
        MtpHeads::weight(self, head)
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.shape.parameters()
    }

    fn document(&self, base: &str) -> Value {
        self.shape.document(base)
    }

    fn following(&self) -> usize {
        self.shape.config.depths
    }

    fn reads_everything(&self) -> bool {
        true
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        MtpHeads::losses(self, weights, lm_head, batch, scales)
    }

    fn values_per_row(&self, _on_host: bool) -> usize {
        let layer = &self.shape.layer;
        self.shape.config.depths * 2 * (16 * layer.hidden_size + 4 * layer.intermediate_size)
    }

    fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    fn load() -> Load {
        |folder, decoder| Ok(Box::new(MtpDrafter::new(MtpModel::load(folder, decoder)?)) as Box<dyn Drafter>)
    }

    /// EAGLE's: modules go on for as long as a tree asks them.
    fn tree() -> Result<Box<dyn TreeBuilder>, TrainError> {
        Ok(Box::new(super::decoding::layer_tree()?))
    }
}

#[cfg(test)]
mod tests;
