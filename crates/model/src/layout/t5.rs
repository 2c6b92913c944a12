//! Names of T5's tensors.

use super::names::{CrossNames, LayerNames, MlpNames};
use crate::config::ModelConfig;

pub(super) const EMBEDDING: &str = "shared.weight";
pub(super) const FINAL_NORM: &str = "decoder.final_layer_norm.weight";
/// The norm after the encoder's last layer `[d]`.
pub const ENCODER_NORM: &str = "encoder.final_layer_norm.weight";
pub(super) const ENCODER: &str = "encoder";
pub(super) const DECODER: &str = "decoder";

/// The names in layer `layer` of the encoder or of the decoder. The first layer's terms by distance serve all of them.
pub(super) fn names(config: &ModelConfig, stack: &str, layer: usize) -> LayerNames {
    let part = |number: usize, name: &str| format!("{stack}.block.{layer}.layer.{number}.{name}");
    let parts = |number: usize, list: &[&str]| list.iter().map(|name| part(number, name)).collect::<Vec<_>>();
    let is_decoder = stack == DECODER;
    let mlp = if is_decoder { 2 } else { 1 };
    let up: &[&str] =
        if config.gated_mlp { &["DenseReluDense.wi_0", "DenseReluDense.wi_1"] } else { &["DenseReluDense.wi"] };
    let cross = CrossNames {
        norm: part(1, "layer_norm.weight"),
        q: part(1, "EncDecAttention.q"),
        kv: parts(1, &["EncDecAttention.k", "EncDecAttention.v"]),
        o: part(1, "EncDecAttention.o"),
    };
    LayerNames {
        input_norm: part(0, "layer_norm.weight"),
        qkv: parts(0, &["SelfAttention.q", "SelfAttention.k", "SelfAttention.v"]),
        o: part(0, "SelfAttention.o"),
        pre_mlp_norm: part(mlp, "layer_norm.weight"),
        mlps: vec![MlpNames { gate_up: parts(mlp, up), down: part(mlp, "DenseReluDense.wo") }],
        cross: is_decoder.then_some(cross),
        position_bias: Some(position_bias(stack)),
        // There are none of these.
        q_norm: String::new(),
        k_norm: String::new(),
        post_attention_norm: String::new(),
        post_mlp_norm: String::new(),
        router: String::new(),
    }
}

/// The terms by distance of a stack, `[buckets, heads]`.
pub(super) fn position_bias(stack: &str) -> String {
    format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
}

/// Copies of the shared embedding table, one for each stack.
pub(super) const TABLES: [&str; 2] = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];

/// Copies of the embedding table, and a table of the first version that no layer reads.
pub(super) fn is_harmless_extra(name: &str) -> bool {
    TABLES.contains(&name) || name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
}
