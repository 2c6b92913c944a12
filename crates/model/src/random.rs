//! Randomly initialised checkpoints: for measuring speed, which does not depend on what the weights say.

use crate::config::ModelConfig;
use crate::device::FloatFormat;
use crate::layout;
use gorgon_core::accept::random::SeededRandom;
use gorgon_runs::tensors::{self, Source};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;

/// Sizes of a Llama.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlamaShape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Vocabulary; at least [`BYTE_VOCAB`].
    pub vocab_size: usize,
    /// Longest context.
    pub max_positions: usize,
}

/// Tokens of the byte-level tokenizer that comes with a random checkpoint: 256 bytes, `<s>` and `</s>`.
pub const BYTE_VOCAB: usize = 258;

/// The key that tells a random checkpoint's config from a model's.
pub const MARK: &str = "gorgon_random_weights";

impl LlamaShape {
    /// The `config.json` of this shape.
    pub fn config(&self, format: FloatFormat) -> Value {
        let dtype = match format {
            FloatFormat::F32 => "float32",
            FloatFormat::F16 => "float16",
            FloatFormat::Bf16 => "bfloat16",
        };
        // The tokenizer's own, where the vocabulary has it.
        let end = Some(257).filter(|end| *end < self.vocab_size);
        json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": self.hidden_size, "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "vocab_size": self.vocab_size,
            "max_position_embeddings": self.max_positions, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": false, "bos_token_id": 256, "eos_token_id": end, "torch_dtype": dtype, (MARK): true
        })
    }

    /// Writes a checkpoint with a byte-level tokenizer into `dir`, which is created.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, dir: &Path, format: FloatFormat, seed: u64) -> io::Result<()> {
        write(&self.config(format), dir, format, seed)
    }
}

/// Sizes of a T5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct T5Shape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Layers of the decoder.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// Size of a head.
    pub head_dim: usize,
    /// Vocabulary; at least [`BYTE_VOCAB`].
    pub vocab_size: usize,
    /// Version 1.1 (gated, an LM head of its own) or 1.0 (the embedding table, scaled).
    pub gated: bool,
}

impl T5Shape {
    /// The `config.json` of this shape. The decoder begins with `<s>`.
    pub fn config(&self) -> Value {
        json!({
            "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": true,
            "d_model": self.hidden_size, "d_ff": self.intermediate_size, "num_layers": self.encoder_layers,
            "num_decoder_layers": self.layers, "num_heads": self.heads, "d_kv": self.head_dim,
            "vocab_size": self.vocab_size, "feed_forward_proj": if self.gated { "gated-gelu" } else { "relu" },
            "tie_word_embeddings": !self.gated, "layer_norm_epsilon": 1e-6, "decoder_start_token_id": 256,
            "pad_token_id": 256, "eos_token_id": 257, "torch_dtype": "float32", (MARK): true
        })
    }

    /// Writes a checkpoint with a byte-level tokenizer into `dir`, which is created.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, dir: &Path, seed: u64) -> io::Result<()> {
        write(&self.config(), dir, FloatFormat::F32, seed)
    }
}

/// Writes a checkpoint of a config with a byte-level tokenizer into `dir`, which is created.
fn write(config: &Value, dir: &Path, format: FloatFormat, seed: u64) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let parsed = ModelConfig::from_json(config).map_err(io::Error::other)?;
    let source = |(i, spec): (usize, layout::TensorSpec)| Source {
        name: spec.name,
        dtype: dtype(format),
        shape: spec.shape.clone(),
        fill: Box::new(move |file| fill(file, &spec.shape, format, seed, i as u64)),
    };
    let sources: Vec<Source<'_>> = layout::tensors(&parsed).into_iter().enumerate().map(source).collect();
    // The config comes first: it carries the mark by which an interrupted write is known for what it is.
    write_description(config, dir)?;
    tensors::write(&dir.join("model.safetensors"), &sources)?;
    Ok(())
}

/// Writes a config and a byte-level tokenizer, without weights.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_description(config: &Value, dir: &Path) -> io::Result<()> {
    let files = [
        ("config.json", config.clone()),
        ("tokenizer.json", byte_tokenizer()),
        ("tokenizer_config.json", json!({"bos_token": "<s>", "eos_token": "</s>"})),
    ];
    for (name, value) in files {
        gorgon_runs::atomic::write(&dir.join(name), |f| {
            serde_json::to_writer_pretty(f, &value).map_err(io::Error::other)
        })?;
    }
    Ok(())
}

fn dtype(format: FloatFormat) -> Dtype {
    match format {
        FloatFormat::F32 => Dtype::F32,
        FloatFormat::F16 => Dtype::F16,
        FloatFormat::Bf16 => Dtype::BF16,
    }
}

/// Draws values as they are written, so that a checkpoint of any size needs little memory. Norms are one; matrices are
/// uniform with a variance of `1 / d_in`, so that activations keep their size.
fn fill(file: &mut dyn Write, shape: &[usize], format: FloatFormat, seed: u64, stream: u64) -> io::Result<()> {
    let mut random = SeededRandom::stream(seed, stream);
    let bound = match shape {
        [_, d_in] => (3.0 / *d_in as f64).sqrt(),
        _ => 0.0,
    };
    for _ in 0..shape.iter().product::<usize>() {
        let value = if bound == 0.0 { 1.0 } else { ((random.uniform() * 2.0 - 1.0) * bound) as f32 };
        match format {
            FloatFormat::F32 => file.write_all(&value.to_le_bytes())?,
            FloatFormat::F16 => file.write_all(&half::f16::from_f32(value).to_le_bytes())?,
            FloatFormat::Bf16 => file.write_all(&half::bf16::from_f32(value).to_le_bytes())?,
        }
    }
    Ok(())
}

/// A tokenizer with one token per byte.
fn byte_tokenizer() -> Value {
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    // Byte-level tokenizers write bytes as printable characters: printable ones as themselves, the others from U+0100.
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut moved = 0x100;
    let mut vocab = serde_json::Map::new();
    for byte in 0..256 {
        let code = if printable(byte) { byte } else { moved };
        moved += u32::from(!printable(byte));
        vocab.insert(char::from_u32(code).unwrap_or_default().to_string(), byte.into());
    }
    vocab.insert("<s>".into(), 256.into());
    vocab.insert("</s>".into(), 257.into());
    json!({
        "version": "1.0",
        "added_tokens": [special(256, "<s>"), special(257, "</s>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
    })
}
