//! A decoder's `config.json`, in one spelling.
//!
//! Hugging Face configs differ by architecture and by age (`rope_theta` beside `rope_parameters`, `torch_dtype` beside
//! `dtype`, defaults that live in Python classes). Everything is resolved here, so that the decoder reads plain facts
//! and never asks which architecture it is.

mod architecture;
mod defaults;
mod error;
pub(crate) mod fields;
mod resolve;

pub use self::architecture::{Architecture, Experts};
pub use self::error::ConfigError;

use self::defaults::Defaults;
use self::fields::{Fields, read_object};
use crate::quantisation::{self, Quantisation};
use crate::rope::RopeConfig;
use gorgon_kernels::activation::Activation;
use serde_json::Value;
use std::path::Path;
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
    /// Tokens that end a generation.
    pub eos_tokens: Vec<u32>,
    /// How a checkpoint of this config stores its linear layers, where that is not in floats.
    pub quantisation: Option<Arc<Quantisation>>,
}

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
        let defaults = Defaults::of(architecture);
        let quantisation = quantisation::parse(f)?.map(Arc::new);
        let hidden_size = f.size("hidden_size", 1 << 20)?;
        let vocab_size = f.size("vocab_size", 1 << 24)?;
        let layers = f.size("num_hidden_layers", 4096)?;
        let (heads, kv_heads, head_dim) = resolve::heads(f, &defaults, hidden_size)?;
        let gemma = architecture == Architecture::Gemma2;
        let attention_bias = resolve::attention_bias(f, architecture)?;
        let config = Self {
            architecture,
            hidden_size,
            intermediate_size: f.size("intermediate_size", 1 << 22)?,
            layers,
            heads,
            kv_heads,
            head_dim,
            vocab_size,
            max_positions: f.size_or("max_position_embeddings", 1 << 30, defaults.max_positions)?,
            norm_eps: resolve::norm_eps(f, &defaults)?,
            rope: resolve::rope(f, architecture, &defaults, head_dim)?,
            activation: resolve::activation(f, architecture)?,
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
        };
        config.check_total()
    }

    /// Refuses sizes that are fine one by one and absurd together.
    fn check_total(self) -> Result<Self, String> {
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
