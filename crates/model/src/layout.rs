//! Names and shapes of the tensors a checkpoint must hold.

mod names;
mod t5;

pub use self::names::{CrossNames, LayerNames, MlpNames};
pub use self::t5::ENCODER_NORM;

use crate::config::{Architecture, ModelConfig};

/// A tensor that a checkpoint must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Its shape, `[out, in]` for matrices.
    pub shape: Vec<usize>,
}

/// The embedding table `[V, d]`.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// The norm after the last layer `[d]`.
pub const FINAL_NORM: &str = "model.norm.weight";
/// The LM head `[V, d]`; absent when it is the embedding table.
pub const LM_HEAD: &str = "lm_head.weight";

/// The embedding table `[V, d]` of a config's checkpoints; encoder and decoder share it.
pub fn embedding(config: &ModelConfig) -> &'static str {
    if config.encoder.is_some() { t5::EMBEDDING } else { EMBEDDING }
}

/// The norm after the decoder's last layer `[d]`.
pub fn final_norm(config: &ModelConfig) -> &'static str {
    if config.encoder.is_some() { t5::FINAL_NORM } else { FINAL_NORM }
}

/// Whether tensors are those of a model, by their names: its last norm is among them.
pub fn is_model<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    names.any(|name| name == FINAL_NORM || name == t5::FINAL_NORM)
}

impl LayerNames {
    /// The names in layer `layer`, without `.weight` and `.bias` for projections, with `.weight` for norms.
    pub fn new(config: &ModelConfig, layer: usize) -> Self {
        if config.encoder.is_some() {
            return t5::names(config, t5::DECODER, layer);
        }
        Self::with_prefix(config, &format!("model.layers.{layer}."))
    }

    /// The names in layer `layer` of the encoder of a model that has one.
    pub fn of_encoder(config: &ModelConfig, layer: usize) -> Self {
        t5::names(config, t5::ENCODER, layer)
    }

    /// The names of a layer whose tensors' names all start with `prefix`, its last dot included.
    pub fn with_prefix(config: &ModelConfig, prefix: &str) -> Self {
        let name = |suffix: &str| format!("{prefix}{suffix}");
        let names = |list: &[&str]| list.iter().map(|suffix| name(suffix)).collect::<Vec<_>>();
        let (qkv, gate_up) = if config.fused_projections {
            (names(&["self_attn.qkv_proj"]), names(&["mlp.gate_up_proj"]))
        } else {
            let qkv = names(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]);
            (qkv, names(&["mlp.gate_proj", "mlp.up_proj"]))
        };
        let expert = |e: usize| {
            let part = |w: &str| name(&format!("block_sparse_moe.experts.{e}.{w}"));
            MlpNames { gate_up: vec![part("w1"), part("w3")], down: part("w2") }
        };
        let mlps = match config.experts {
            Some(experts) => (0..experts.count).map(expert).collect(),
            None => vec![MlpNames { gate_up, down: name("mlp.down_proj") }],
        };
        // Gemma 2 names the norm after attention "post_attention"; the others use that name for the one before the MLP.
        let gemma = config.architecture == Architecture::Gemma2;
        let pre_mlp = if gemma { "pre_feedforward_layernorm.weight" } else { "post_attention_layernorm.weight" };
        Self {
            input_norm: name("input_layernorm.weight"),
            qkv,
            q_norm: name("self_attn.q_norm.weight"),
            k_norm: name("self_attn.k_norm.weight"),
            o: name("self_attn.o_proj"),
            post_attention_norm: name("post_attention_layernorm.weight"),
            pre_mlp_norm: name(pre_mlp),
            post_mlp_norm: name("post_feedforward_layernorm.weight"),
            router: name("block_sparse_moe.gate"),
            mlps,
            cross: None,
            position_bias: None,
        }
    }
}

/// Every tensor that a checkpoint of this config must hold, in reading order.
pub fn tensors(config: &ModelConfig) -> Vec<TensorSpec> {
    let mut list = Listing(vec![]);
    let d = config.hidden_size;
    list.add(embedding(config), &[config.vocab_size, d]);
    if let Some(encoder) = &config.encoder {
        for stack in [t5::ENCODER, t5::DECODER] {
            list.add(&t5::position_bias(stack), &[encoder.buckets.count, config.heads]);
        }
        for layer in 0..encoder.layers {
            list.layer(config, &LayerNames::of_encoder(config, layer));
        }
        list.add(ENCODER_NORM, &[d]);
    }
    for layer in 0..config.layers {
        list.layer(config, &LayerNames::new(config, layer));
    }
    list.add(final_norm(config), &[d]);
    if !config.tied_embeddings {
        list.add(LM_HEAD, &[config.vocab_size, d]);
    }
    list.0
}

/// Whether a tensor that the decoder does not need may be in a checkpoint all the same: buffers that old exporters
/// saved, the copy of a tied LM head, and Medusa heads stored beside their backbone.
pub fn is_harmless_extra(config: &ModelConfig, name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
        || name == "model.rotary_emb.inv_freq"
        || name.starts_with("medusa_head.")
        || (config.tied_embeddings && name == LM_HEAD)
        || (config.encoder.is_some() && t5::is_harmless_extra(name))
}

/// Tensors that are copies of the embedding table where a checkpoint has them at all: the LM head of tied embeddings, and
/// the tables of an encoder-decoder model's two stacks.
pub fn copies_of_embedding(config: &ModelConfig) -> Vec<&'static str> {
    let tables: &[&str] = if config.encoder.is_some() { &t5::TABLES } else { &[] };
    tables.iter().copied().chain(config.tied_embeddings.then_some(LM_HEAD)).collect()
}

/// Tensor that marks a layer after the last one as part of a multi-token-prediction module, which is a drafter's;
/// `None` for any other tensor.
pub fn module_mark(config: &ModelConfig, name: &str) -> Option<String> {
    let (layer, _) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    (layer >= config.layers).then(|| format!("model.layers.{layer}.eh_proj.weight"))
}

struct Listing(Vec<TensorSpec>);

impl Listing {
    fn add(&mut self, name: &str, shape: &[usize]) {
        self.0.push(TensorSpec { name: name.into(), shape: shape.into() });
    }

    /// Matrices whose rows follow one another, `heights` rows each, with biases if asked for.
    fn linear(&mut self, names: &[String], heights: &[usize], d_in: usize, bias: bool) {
        for (name, &height) in names.iter().zip(heights) {
            self.add(&format!("{name}.weight"), &[height, d_in]);
            if bias {
                self.add(&format!("{name}.bias"), &[height]);
            }
        }
    }

    fn layer(&mut self, c: &ModelConfig, names: &LayerNames) {
        let (d, q, kv) = (c.hidden_size, c.heads * c.head_dim, c.kv_heads * c.head_dim);
        self.add(&names.input_norm, &[d]);
        let heights = if c.fused_projections { vec![q + 2 * kv] } else { vec![q, kv, kv] };
        self.linear(&names.qkv, &heights, d, c.qkv_bias);
        if c.qk_norm {
            self.add(&names.q_norm, &[c.head_dim]);
            self.add(&names.k_norm, &[c.head_dim]);
        }
        self.linear(std::slice::from_ref(&names.o), &[d], q, c.o_bias);
        if c.post_norms {
            self.add(&names.post_attention_norm, &[d]);
        }
        if let Some(cross) = &names.cross {
            self.add(&cross.norm, &[d]);
            self.linear(std::slice::from_ref(&cross.q), &[q], d, false);
            self.linear(&cross.kv, &[kv, kv], d, false);
            self.linear(std::slice::from_ref(&cross.o), &[d], q, false);
        }
        self.add(&names.pre_mlp_norm, &[d]);
        if let Some(experts) = c.experts {
            self.add(&format!("{}.weight", names.router), &[experts.count, d]);
        }
        let i = c.intermediate_size;
        let heights = if c.fused_projections { vec![2 * i] } else { vec![i, i] };
        for mlp in &names.mlps {
            self.linear(&mlp.gate_up, &heights, d, c.mlp_bias);
            self.linear(std::slice::from_ref(&mlp.down), &[d], i, c.mlp_bias);
        }
        if c.post_norms {
            self.add(&names.post_mlp_norm, &[d]);
        }
    }
}

impl ModelConfig {
    /// Number of parameters of the checkpoint, tied embeddings counted once. Encoder and decoder both count.
    pub fn parameters(&self) -> u128 {
        let product = |shape: &[usize]| shape.iter().map(|&n| n as u128).product::<u128>();
        // All layers are alike, so one is enough: a config may name thousands.
        let one = Self { layers: 1, ..self.clone() };
        let none = Self { layers: 0, ..self.clone() };
        let count = |c: &Self| tensors(c).iter().map(|t| product(&t.shape)).sum::<u128>();
        let (one, none) = (count(&one), count(&none));
        none + (one - none) * self.layers as u128
    }
}
