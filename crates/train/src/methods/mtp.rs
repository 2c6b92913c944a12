//! Multi-token prediction: a chain of modules, each reading the state of the one before (DeepSeek-V3).

use super::decoding::Load;
use super::decoding::layer_tree;
use super::head_stack::HeadStack;
use crate::error::TrainError;
use burn::tensor::Tensor;
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::{HeadOutput, HeadScale};
use gorgon_draft::mtp::{MtpDrafter, MtpHeads, MtpModel};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::Table;
use serde_json::Value;

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

    /// EAGLE's tree, since modules can draft to any depth.
    fn tree() -> Result<Box<dyn TreeBuilder>, TrainError> {
        Ok(Box::new(layer_tree()?))
    }
}
