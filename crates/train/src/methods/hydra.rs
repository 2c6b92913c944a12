//! Hydra and Hydra++: heads that also read the tokens before theirs (Ankner et al., 2024).

use super::decoding::Load;
use super::head_stack::HeadStack;
use burn::tensor::Tensor;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::hydra::{HydraDrafter, HydraHeads, HydraModel};
use gorgon_draft::medusa::{HeadOutput, HeadScale};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::Table;
use serde_json::Value;

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
        self.shape.config.prefix_attention || self.shape.config.soft_targets
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
