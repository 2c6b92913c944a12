//! A decoder's `config.json`, in one spelling.
//!
//! Hugging Face configs differ by architecture and by age (`rope_theta` beside `rope_parameters`, `torch_dtype` beside
//! `dtype`, defaults that live in Python classes). Everything is resolved here, so that the decoder reads plain facts
//! and never asks which architecture it is.

mod architecture;
mod defaults;
mod error;
pub(crate) mod fields;
mod model;
mod resolve;
mod t5;

pub use self::architecture::{Architecture, EncoderConfig, Experts, PositionBuckets};
pub use self::error::ConfigError;
pub use self::model::ModelConfig;

use self::defaults::Defaults;
use self::fields::{Fields, read_object};
use crate::quantisation;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

impl ModelConfig {
    /// Reads `config.json`, and `generation_config.json` if it is there, from a model folder or the metadata of a GGUF
    /// file.
    ///
    /// # Errors
    /// One line that names the file and the value.
    pub fn read(dir: &Path) -> Result<Self, ConfigError> {
        let path = gorgon_gguf::place(dir, "config.json");
        let fields = Fields(read_object(dir, "config.json")?);
        let mut config =
            Self::from_fields(&fields).map_err(|reason| ConfigError::Value { path: path.clone(), reason })?;
        let path = gorgon_gguf::place(dir, "generation_config.json");
        // A link that leads nowhere counts as there: reading it then says what is wrong.
        if path.symlink_metadata().is_ok() {
            let fields = Fields(read_object(dir, "generation_config.json")?);
            let wrong = |reason| ConfigError::Value { path: path.clone(), reason };
            if let Some(tokens) = fields.tokens("eos_token_id", config.vocab_size).map_err(wrong)? {
                config.eos_tokens = tokens;
            }
            if let Some(encoder) = &mut config.encoder {
                let start = t5::token(&fields, "decoder_start_token_id", config.vocab_size).map_err(wrong)?;
                encoder.start_token = start.unwrap_or(encoder.start_token);
            }
        }
        Ok(config)
    }

    /// Resolves a parsed `config.json`.
    ///
    /// # Errors
    /// A description of the first value that is missing, of the wrong type or out of range.
    pub fn from_json(config: &Value) -> Result<Self, String> {
        let object = config.as_object().ok_or("not a JSON object")?;
        Self::from_fields(&Fields(object.clone()))
    }

    fn from_fields(f: &Fields) -> Result<Self, String> {
        let architecture = resolve::architecture(f)?;
        if !f.flag("is_causal", true)? {
            return Err("is_causal is false; models whose tokens read later ones do not generate text".into());
        }
        let config = match architecture {
            Architecture::T5 => t5::resolve(f)?,
            decoder_only => Self::decoder_only(f, decoder_only)?,
        };
        config.check_total()
    }

    fn decoder_only(f: &Fields, architecture: Architecture) -> Result<Self, String> {
        let defaults = Defaults::of(architecture);
        let quantisation = quantisation::parse(f)?.map(Arc::new);
        let hidden_size = f.size("hidden_size", 1 << 20)?;
        let vocab_size = f.size("vocab_size", 1 << 24)?;
        let layers = f.size("num_hidden_layers", 4096)?;
        let (heads, kv_heads, head_dim) = resolve::heads(f, &defaults, hidden_size)?;
        let gemma = architecture == Architecture::Gemma2;
        let attention_bias = resolve::attention_bias(f, architecture)?;
        let positions = f.size_or("max_position_embeddings", resolve::MAX_POSITIONS, defaults.max_positions)?;
        let rope = resolve::rope(f, architecture, (&defaults, positions), head_dim)?;
        Ok(Self {
            hidden_size,
            intermediate_size: f.size("intermediate_size", 1 << 22)?,
            layers,
            heads,
            kv_heads,
            head_dim,
            vocab_size,
            max_positions: resolve::positions(positions, &rope.scaling),
            norm_eps: resolve::norm_eps(f, &defaults)?,
            tied_embeddings: f.flag("tie_word_embeddings", gemma)?,
            qkv_bias: attention_bias || architecture == Architecture::Qwen2,
            o_bias: attention_bias,
            mlp_bias: architecture == Architecture::Llama && f.flag("mlp_bias", false)?,
            qk_norm: architecture == Architecture::Qwen3,
            fused_projections: architecture == Architecture::Phi3,
            norm_plus_one: gemma,
            post_norms: gemma,
            embedding_scale: if gemma { (hidden_size as f32).sqrt() } else { 1.0 },
            attention_scale: resolve::attention_scale(f, &defaults, head_dim)?,
            attention_soft_cap: resolve::soft_cap(f, "attn_logit_softcapping", defaults.attention_soft_cap)?,
            final_soft_cap: resolve::soft_cap(f, "final_logit_softcapping", defaults.final_soft_cap)?,
            windows: resolve::windows(f, architecture, &defaults, layers)?,
            experts: resolve::experts(f, architecture)?,
            eos_tokens: resolve::end_tokens(f, &defaults, vocab_size)?,
            quantisation,
            ..Self::bare(architecture, rope, resolve::activation(f, architecture)?)
        })
    }
}
