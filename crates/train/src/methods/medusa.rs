//! Medusa-1: heads that each read the backbone's state alone (Cai et al., 2024).

use super::decoding::Load;
use super::head_stack::HeadStack;
use burn::tensor::Tensor;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::{HeadOutput, HeadScale, Heads, LabelWeights, MedusaDrafter, MedusaModel};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::Table;
use serde_json::Value;

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
        let alone = (on_host || self.config.own_lm_heads) && self.config.label_weights == LabelWeights::Equal;
        let heads = if alone { 1 } else { self.config.heads };
        self.hidden_size * (3 + 6 * self.config.blocks) * heads
    }

    fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    fn load() -> Load {
        |folder, decoder| Ok(Box::new(MedusaDrafter::new(MedusaModel::load(folder, decoder)?)) as Box<dyn Drafter>)
    }
}
