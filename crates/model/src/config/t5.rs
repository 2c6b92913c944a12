//! The configs of T5 (Raffel et al., 2020, <https://arxiv.org/abs/1910.10683>), versions 1.0 and 1.1, and FLAN-T5.

use super::architecture::{Architecture, EncoderConfig, PositionBuckets};
use super::defaults::Defaults;
use super::fields::{Fields, quoted};
use super::model::ModelConfig;
use super::resolve;
use crate::quantisation;
use crate::rope::{RopeConfig, RopeScaling};
use gorgon_kernels::activation::Activation;
use std::sync::Arc;

/// Positions are relative, so a text has no last one; this bounds what a request can ask for.
const MAX_POSITIONS: usize = 1 << 20;

/// Distances that have a term of their own, at most.
const MAX_DISTANCE: usize = 1 << 14;

/// Resolves a parsed `config.json`.
pub(super) fn resolve(f: &Fields) -> Result<ModelConfig, String> {
    let defaults = Defaults::of(Architecture::T5);
    if !f.flag("is_encoder_decoder", true)? {
        return Err("is_encoder_decoder is false; a T5 model has an encoder and a decoder".into());
    }
    let (hidden_size, vocab_size) = (f.size("d_model", 1 << 20)?, f.size("vocab_size", 1 << 24)?);
    let encoder = encoder(f, vocab_size)?;
    let layers = f.size_or("num_decoder_layers", 4096, encoder.layers)?;
    let heads = f.size("num_heads", 1 << 14)?;
    let tied_embeddings = f.flag("tie_word_embeddings", true)?;
    let is_scaled = f.flag("scale_decoder_outputs", tied_embeddings)?;
    // No dimension is rotated.
    let rope = RopeConfig { theta: defaults.rope_theta, rotary_dim: 0, scaling: RopeScaling::None };
    Ok(ModelConfig {
        hidden_size,
        intermediate_size: f.size("d_ff", 1 << 22)?,
        layers,
        heads,
        kv_heads: heads,
        head_dim: f.size("d_kv", 1 << 13)?,
        vocab_size,
        max_positions: MAX_POSITIONS,
        norm_eps: resolve::epsilon(f, "layer_norm_epsilon", defaults.norm_eps)?,
        gated_mlp: is_gated(f)?,
        tied_embeddings,
        head_scale: if is_scaled { (1.0 / (hidden_size as f64).sqrt()) as f32 } else { 1.0 },
        windows: vec![None; layers],
        encoder: Some(encoder),
        eos_tokens: resolve::end_tokens(f, &defaults, vocab_size)?,
        quantisation: quantisation::parse(f)?.map(Arc::new),
        ..ModelConfig::bare(Architecture::T5, rope, Activation::GeluTanh)
    })
}

/// The encoder, and the token that the decoder begins with: the padding token if there is no other.
fn encoder(f: &Fields, vocab_size: usize) -> Result<EncoderConfig, String> {
    let start_token = match token(f, "decoder_start_token_id", vocab_size)? {
        Some(start) => start,
        None => token(f, "pad_token_id", vocab_size)?.unwrap_or(0),
    };
    Ok(EncoderConfig { layers: f.size("num_layers", 4096)?, start_token, buckets: buckets(f)? })
}

/// Whether the feed-forward network has a gate, whose activation is GELU in its tanh form.
fn is_gated(f: &Fields) -> Result<bool, String> {
    match f.text("feed_forward_proj")?.unwrap_or("relu") {
        "relu" => Ok(false),
        "gated-gelu" => Ok(true),
        other => Err(format!("feed_forward_proj is {}; supported: relu, gated-gelu", quoted(other))),
    }
}

/// How distances share terms of attention scores. The decoder has distances in one direction, the encoder half as many
/// terms for each of two; the first half of a direction's terms is for one distance each.
fn buckets(f: &Fields) -> Result<PositionBuckets, String> {
    let count = f.size_or("relative_attention_num_buckets", MAX_DISTANCE, 32)?;
    if count < 4 {
        return Err(format!("relative_attention_num_buckets is {count}; a whole number from 4 is expected"));
    }
    let max_distance = f.size_or("relative_attention_max_distance", MAX_DISTANCE, 128)?;
    if max_distance <= count / 2 {
        return Err(format!(
            "relative_attention_max_distance is {max_distance}; with {count} buckets more than {} is expected",
            count / 2
        ));
    }
    Ok(PositionBuckets { count, max_distance })
}

/// A single token of the vocabulary.
pub(super) fn token(f: &Fields, name: &str, vocab_size: usize) -> Result<Option<u32>, String> {
    match f.tokens(name, vocab_size)?.as_deref() {
        None => Ok(None),
        Some([token]) => Ok(Some(*token)),
        Some(list) => Err(format!("{name} is a list of {}; one token id is expected", list.len())),
    }
}
