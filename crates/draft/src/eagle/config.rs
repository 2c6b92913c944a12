//! What is trained, its sizes, and what its tensors are called.

use gorgon_model::config::ModelConfig;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a draft layer is trained.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EagleConfig {
    /// Whether `fc` has a bias. Layers without one load in every engine.
    pub fc_bias: bool,
    /// Half-width of the uniform noise on the features that are read, `U(-noise, noise)`.
    /// The same for every conversation, as in the paper; the reference scales it by 512 over the conversation's length.
    pub noise: f64,
    /// What the cross-entropy counts beside the regression.
    pub cross_entropy: f64,
}

impl Default for EagleConfig {
    /// The paper's.
    fn default() -> Self {
        Self { fc_bias: false, noise: 0.1, cross_entropy: 0.1 }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("eagle.{key} = {value}: it has to be a number, 0 or more")]
pub struct EagleError {
    key: &'static str,
    value: f64,
}

impl EagleConfig {
    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), EagleError> {
        let numbers = [("noise", self.noise), ("cross_entropy", self.cross_entropy)];
        match numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            Some((key, value)) => Err(EagleError { key, value }),
            None => Ok(()),
        }
    }
}

/// Sizes of a draft layer.
#[derive(Clone, Debug, PartialEq)]
pub struct EagleShape {
    /// Width of a feature, d.
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
    /// Epsilon of the norm.
    pub norm_eps: f32,
    /// Rotary embedding; whole heads are rotated.
    pub rope: RopeConfig,
    /// Whether `fc` has a bias.
    pub fc_bias: bool,
}

/// A tensor of the draft layer.
#[derive(Clone, Debug, PartialEq)]
pub struct EagleParameter {
    /// Its published name.
    pub name: &'static str,
    /// Its shape, `[out, in]` or `[out]`.
    pub shape: Vec<usize>,
    /// What it starts as.
    pub init: Init,
}

/// What a tensor starts as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Random values of this standard deviation.
    Normal(f64),
    /// Zeros.
    Zero,
    /// Ones.
    One,
    /// The rows of the backbone's LM head for the tokens that can be drafted.
    LmHead,
}

/// A matrix that starts with the variance `1/(3 in)` of PyTorch's linear layers, which the reference starts from.
pub(super) fn matrix(name: &'static str, out: usize, into: usize) -> EagleParameter {
    let init = Init::Normal((1.0 / (3.0 * into as f64)).sqrt());
    EagleParameter { name, shape: vec![out, into], init }
}

impl EagleShape {
    /// The draft layer for a backbone: a layer of the backbone's own sizes.
    pub fn of(backbone: &ModelConfig, fc_bias: bool) -> Self {
        Self {
            hidden_size: backbone.hidden_size,
            intermediate_size: backbone.intermediate_size,
            heads: backbone.heads,
            kv_heads: backbone.kv_heads,
            head_dim: backbone.head_dim,
            vocab_size: backbone.vocab_size,
            max_positions: backbone.max_positions,
            norm_eps: backbone.norm_eps,
            rope: RopeConfig { rotary_dim: backbone.head_dim, ..backbone.rope },
            fc_bias,
        }
    }

    /// All tensors, in the order in which [`super::EagleNetwork`] reads them.
    pub fn parameters(&self) -> Vec<EagleParameter> {
        let (d, i) = (self.hidden_size, self.intermediate_size);
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let vector = |name, init| EagleParameter { name, shape: vec![d], init };
        let mut all = vec![matrix("fc.weight", d, 2 * d)];
        if self.fc_bias {
            all.push(vector("fc.bias", Init::Zero));
        }
        all.extend([
            matrix("layers.0.self_attn.q_proj.weight", q, d),
            matrix("layers.0.self_attn.k_proj.weight", kv, d),
            matrix("layers.0.self_attn.v_proj.weight", kv, d),
            matrix("layers.0.self_attn.o_proj.weight", d, q),
            vector("layers.0.post_attention_layernorm.weight", Init::One),
            matrix("layers.0.mlp.gate_proj.weight", i, d),
            matrix("layers.0.mlp.up_proj.weight", i, d),
            matrix("layers.0.mlp.down_proj.weight", d, i),
        ]);
        all
    }

    /// The `config.json` of a folder with this layer: the config of a Llama with one layer, and `bias` for `fc`.
    pub fn document(&self, base: &str) -> Value {
        let mut document = json!({
            "architectures": ["LlamaForCausalLMEagle"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": self.hidden_size, "intermediate_size": self.intermediate_size, "num_hidden_layers": 1,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "vocab_size": self.vocab_size, "max_position_embeddings": self.max_positions,
            "rms_norm_eps": f64::from(self.norm_eps), "rope_theta": self.rope.theta, "bias": self.fc_bias,
            "tie_word_embeddings": false, "base_model_name_or_path": base
        });
        match self.rope.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                document["rope_scaling"] = json!({"type": "linear", "rope_type": "linear", "factor": factor});
            }
            RopeScaling::Llama3 { factor, low, high, original_length } => {
                document["rope_scaling"] = json!({
                    "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                    "original_max_position_embeddings": original_length as u64
                });
            }
        }
        document
    }
}
