//! The facts of a model.

use super::architecture::{Architecture, EncoderConfig, Experts};
use crate::quantisation::Quantisation;
use crate::rope::RopeConfig;
use gorgon_kernels::activation::Activation;
use std::sync::Arc;

/// A decoder's facts.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which family the checkpoint belongs to (decides tensor names).
    pub architecture: Architecture,
    /// Width of the residual stream, d.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Size of one head.
    pub head_dim: usize,
    /// Vocabulary size, V.
    pub vocab_size: usize,
    /// Longest context, in tokens.
    pub max_positions: usize,
    /// Epsilon of every RMS norm.
    pub norm_eps: f32,
    /// Rotary embedding.
    pub rope: RopeConfig,
    /// Gate of the feed-forward network.
    pub activation: Activation,
    /// Whether the feed-forward network has a gate; without one it is `down(relu(up(x)))`.
    pub gated_mlp: bool,
    /// Whether the LM head is the embedding table.
    pub tied_embeddings: bool,
    /// Biases on the query, key and value projections.
    pub qkv_bias: bool,
    /// Bias on the attention's output projection.
    pub o_bias: bool,
    /// Biases in the feed-forward network.
    pub mlp_bias: bool,
    /// RMS norms on each query and key head.
    pub qk_norm: bool,
    /// Whether checkpoints store query, key and value (and gate and up) as one matrix.
    pub fused_projections: bool,
    /// Norm weights are stored minus one.
    pub norm_plus_one: bool,
    /// Norms after attention and feed-forward, beside those before them.
    pub post_norms: bool,
    /// Factor on embeddings.
    pub embedding_scale: f32,
    /// Factor on the hidden states that the LM head reads.
    pub head_scale: f32,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// Soft cap on attention scores.
    pub attention_soft_cap: Option<f32>,
    /// Soft cap on logits.
    pub final_soft_cap: Option<f32>,
    /// Sliding window of each layer; `None` sees everything.
    pub windows: Vec<Option<usize>>,
    /// Mixture of experts in place of the feed-forward network.
    pub experts: Option<Experts>,
    /// The encoder whose states the layers read, where there is one. The other fields are the decoder's.
    pub encoder: Option<EncoderConfig>,
    /// Tokens that end a generation.
    pub eos_tokens: Vec<u32>,
    /// How a checkpoint of this config stores its linear layers, where that is not in floats.
    pub quantisation: Option<Arc<Quantisation>>,
}

impl ModelConfig {
    /// A config without sizes, and without all that only some families have.
    pub(super) fn bare(architecture: Architecture, rope: RopeConfig, activation: Activation) -> Self {
        Self {
            architecture,
            hidden_size: 0,
            intermediate_size: 0,
            layers: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            vocab_size: 0,
            max_positions: 0,
            norm_eps: 0.0,
            rope,
            activation,
            gated_mlp: true,
            tied_embeddings: false,
            qkv_bias: false,
            o_bias: false,
            mlp_bias: false,
            qk_norm: false,
            fused_projections: false,
            norm_plus_one: false,
            post_norms: false,
            embedding_scale: 1.0,
            head_scale: 1.0,
            attention_scale: 1.0,
            attention_soft_cap: None,
            final_soft_cap: None,
            windows: vec![],
            experts: None,
            encoder: None,
            eos_tokens: vec![],
            quantisation: None,
        }
    }

    /// The tokens of a text to be continued after a prompt: the prompt, and of a model with an encoder, whose source it
    /// is, the token that the decoder's text begins with.
    pub fn prompt(&self, mut ids: Vec<u32>) -> Vec<u32> {
        ids.extend(self.encoder.map(|encoder| encoder.start_token));
        ids
    }

    /// Refuses sizes that are fine one by one and absurd together.
    pub(super) fn check_total(self) -> Result<Self, String> {
        const LIMIT: u128 = 1 << 41;
        // Every tensor has a name and a shape in memory before any is read.
        const MOST_NETWORKS: usize = 1 << 18;
        let networks = self.layers.saturating_mul(self.experts.map_or(1, |experts| experts.count));
        if networks > MOST_NETWORKS {
            let layers = self.layers;
            return Err(format!("num_hidden_layers {layers} with these experts make {networks} networks"));
        }
        let total = self.parameters();
        if total > LIMIT {
            return Err(format!("the sizes amount to {total} parameters; at most {LIMIT} are supported"));
        }
        let widest = self.heads.max(self.kv_heads).saturating_mul(self.head_dim);
        if widest > 1 << 24 {
            return Err(format!("{} heads of {} are {widest} wide", self.heads, self.head_dim));
        }
        Ok(self)
    }

    /// The windows of all layers, each once.
    pub fn distinct_windows(&self) -> Vec<Option<usize>> {
        let mut distinct: Vec<Option<usize>> = vec![];
        for window in &self.windows {
            if !distinct.contains(window) {
                distinct.push(*window);
            }
        }
        distinct
    }
}
