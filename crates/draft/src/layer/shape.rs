//! Sizes of a drafter's decoder layer.

use crate::format::LayerSpec;
use crate::parameter::ParameterSpec;
use gorgon_model::config::ModelConfig;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use serde_json::{Value, json};

/// Sizes of a Llama decoder layer beside a backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerShape {
    /// Width of the residual stream, d.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Size of one head.
    pub head_dim: usize,
    /// The backbone's vocabulary, V.
    pub vocab_size: usize,
    /// Longest context.
    pub max_positions: usize,
    /// Epsilon of the norms.
    pub norm_eps: f32,
    /// Rotary embedding; whole heads are rotated.
    pub rope: RopeConfig,
}

impl LayerShape {
    /// A layer of the backbone's own sizes.
    pub fn of(backbone: &ModelConfig) -> Self {
        Self {
            hidden_size: backbone.hidden_size,
            intermediate_size: backbone.intermediate_size,
            heads: backbone.heads,
            kv_heads: backbone.kv_heads,
            head_dim: backbone.head_dim,
            vocab_size: backbone.vocab_size,
            max_positions: backbone.max_positions,
            norm_eps: backbone.norm_eps,
            rope: backbone.rope.for_heads(backbone.head_dim),
        }
    }

    /// The layer's tensors in the order in which [`super::LayerNetwork`] reads them, the norm in front of the attention
    /// first; `prefix` is what their names start with, the last dot included. What the layer adds to the residual
    /// stream starts as nothing.
    pub fn parameters(&self, prefix: &str) -> Vec<ParameterSpec> {
        let (d, i) = (self.hidden_size, self.intermediate_size);
        let name = |suffix: &str| format!("{prefix}{suffix}.weight");
        let mut all = self.attention_parameters(prefix);
        all.extend([
            ParameterSpec::norm(name("post_attention_layernorm"), d),
            ParameterSpec::matrix(name("mlp.gate_proj"), i, d),
            ParameterSpec::matrix(name("mlp.up_proj"), i, d),
            ParameterSpec::zeros(name("mlp.down_proj"), &[d, i]),
        ]);
        all
    }

    /// The tensors of the attention and of the norm in front of it; otherwise as [`Self::parameters`].
    pub fn attention_parameters(&self, prefix: &str) -> Vec<ParameterSpec> {
        let d = self.hidden_size;
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let name = |suffix: &str| format!("{prefix}{suffix}.weight");
        vec![
            ParameterSpec::norm(name("input_layernorm"), d),
            ParameterSpec::matrix(name("self_attn.q_proj"), q, d),
            ParameterSpec::matrix(name("self_attn.k_proj"), kv, d),
            ParameterSpec::matrix(name("self_attn.v_proj"), kv, d),
            ParameterSpec::zeros(name("self_attn.o_proj"), &[d, q]),
        ]
    }

    /// The layer as the config of a Llama that consists of it.
    pub fn document(&self) -> Value {
        let mut document = json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": self.hidden_size, "intermediate_size": self.intermediate_size, "num_hidden_layers": 1,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "vocab_size": self.vocab_size, "max_position_embeddings": self.max_positions,
            "rms_norm_eps": f64::from(self.norm_eps), "rope_theta": self.rope.theta, "tie_word_embeddings": false
        });
        match self.rope.scaling {
            RopeScaling::None => {}
            RopeScaling::LongRope { ref divisors, original_length, attention } => {
                document["rope_scaling"] = json!({
                    "type": "longrope", "rope_type": "longrope", "short_factor": divisors[..],
                    "long_factor": divisors[..], "original_max_position_embeddings": original_length as u64,
                    "attention_factor": attention
                });
            }
            RopeScaling::Linear { factor } => {
                // Readers of the config multiply this length by the factor.
                let length = (self.max_positions as f64 / factor.max(1.0)).round() as usize;
                document["max_position_embeddings"] = length.into();
                document["rope_scaling"] = json!({"type": "linear", "rope_type": "linear", "factor": factor});
            }
            RopeScaling::Llama3 { factor, low, high, original_length } => {
                document["rope_scaling"] = json!({
                    "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                    "original_max_position_embeddings": original_length as u64
                });
            }
            RopeScaling::Yarn { factor, fast, slow, original_length, attention, truncate } => {
                document["rope_scaling"] = json!({
                    "type": "yarn", "rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow,
                    "original_max_position_embeddings": original_length as u64, "attention_factor": attention,
                    "truncate": truncate
                });
            }
        }
        document
    }

    /// The config to load such a layer with, for tensors that say `facts`.
    ///
    /// # Errors
    /// In words, when the tensors are of other sizes.
    pub fn config(&self, facts: &LayerSpec) -> Result<ModelConfig, String> {
        let ours = (self.intermediate_size, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let theirs = (facts.intermediate_size, facts.query_size, facts.key_value_size);
        if ours != theirs {
            return Err(format!(
                "a layer of feed-forward, query and key sizes {theirs:?}; a layer of the model's sizes has {ours:?}"
            ));
        }
        if facts.qk_norm.is_some_and(|width| width != self.head_dim) {
            return Err(format!("norms of queries and keys for heads of another size than {}", self.head_dim));
        }
        let config = ModelConfig::from_json(&self.document())?;
        Ok(ModelConfig { qkv_bias: facts.qkv_bias, qk_norm: facts.qk_norm.is_some(), ..config })
    }
}
