//! The decoder layer inside EAGLE, Hydra++ and multi-token prediction, and its attention inside Kangaroo.

use super::config_hints::ConfigHints;
use super::head_spec::LayerSpec;
use super::specs::{Dim, Size, SizeHint, Sizes, Specs};
use super::tensor_index::{Report, TensorIndex};

/// A Llama-like decoder layer in a file.
pub(super) struct Layer {
    /// Prefix of its names, up to and including the last dot.
    pub prefix: String,
    /// Input width of the query, key and value projections.
    pub attention_input: Dim,
    /// Norms of the residual stream's width.
    pub norms: &'static [&'static str],
}

/// Said where a decoder layer comes without a config.
pub(super) const NO_CONFIG: &str =
    "no config.json: the number of attention heads, the rotary base and the norms' epsilon are unknown";

const PROJECTIONS: [(&str, Size); 3] =
    [("q_proj", Size::Queries), ("k_proj", Size::KeyValues), ("v_proj", Size::KeyValues)];

impl Layer {
    fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix)
    }

    /// True if any of the query, key and value projections has a bias; then all must.
    pub fn qkv_bias(&self, index: &TensorIndex<'_>) -> bool {
        PROJECTIONS.iter().any(|(name, _)| index.has(&self.name(&format!("self_attn.{name}.bias"))))
    }

    /// True if queries or keys have a norm per head; then both must.
    fn qk_norm(&self, index: &TensorIndex<'_>) -> bool {
        ["q_norm", "k_norm"].iter().any(|name| index.has(&self.name(&format!("self_attn.{name}.weight"))))
    }

    /// Adds the layer's tensors; norms on queries and keys only where the architecture has them (`qk_norm`).
    pub fn add(&self, specs: &mut Specs, index: &TensorIndex<'_>, qk_norm: bool) {
        self.add_attention(specs, index, qk_norm);
        for name in ["mlp.gate_proj", "mlp.up_proj"] {
            specs.linear(&self.name(name), Size::Intermediate, Size::Hidden, false);
        }
        specs.linear(&self.name("mlp.down_proj"), Size::Hidden, Size::Intermediate, false);
    }

    /// Adds the layer's tensors without its feed-forward network; otherwise as [`Self::add`].
    pub fn add_attention(&self, specs: &mut Specs, index: &TensorIndex<'_>, qk_norm: bool) {
        for norm in self.norms {
            specs.vector(self.name(&format!("{norm}.weight")), Size::Hidden);
        }
        let bias = self.qkv_bias(index);
        for (name, size) in PROJECTIONS {
            specs.linear(&self.name(&format!("self_attn.{name}")), size, self.attention_input, bias);
        }
        specs.linear(&self.name("self_attn.o_proj"), Size::Hidden, Size::Queries, false);
        if qk_norm && self.qk_norm(index) {
            specs.vector(self.name("self_attn.q_norm.weight"), Size::HeadDim);
            specs.vector(self.name("self_attn.k_norm.weight"), Size::HeadDim);
        }
    }

    /// The layer's spec.
    pub fn spec(&self, index: &TensorIndex<'_>, sizes: &Sizes) -> LayerSpec {
        LayerSpec {
            intermediate_size: sizes.or_zero(Size::Intermediate),
            query_size: sizes.or_zero(Size::Queries),
            key_value_size: sizes.or_zero(Size::KeyValues),
            qkv_bias: self.qkv_bias(index),
            qk_norm: sizes.get(Size::HeadDim),
        }
    }
}

/// Sizes that a Hugging Face config names of a Llama-like decoder.
pub(super) fn hints(config: &ConfigHints<'_>, report: &mut Report) -> Vec<SizeHint> {
    let mut hints = vec![];
    let mut add = |key: String, size: Size, value: Option<usize>| {
        if let Some(value) = value {
            hints.push(SizeHint { key, size, value });
        }
    };
    let hidden = config.count("hidden_size", report);
    let heads = config.count("num_attention_heads", report);
    let kv_heads = config.count("num_key_value_heads", report);
    let head_dim = config.count("head_dim", report);
    add(config.path("hidden_size"), Size::Hidden, hidden);
    add(config.path("vocab_size"), Size::Vocab, config.count("vocab_size", report));
    add(config.path("intermediate_size"), Size::Intermediate, config.count("intermediate_size", report));
    add(config.path("head_dim"), Size::HeadDim, head_dim);
    let Some(heads) = heads else { return hints };
    // The defaults are those of the Llama config.
    let (head_dim, from) = match (head_dim, hidden) {
        (Some(head_dim), _) => (Some(head_dim), "head_dim"),
        (None, hidden) => (hidden.and_then(|hidden| hidden.checked_div(heads)), "hidden_size / num_attention_heads"),
    };
    let product = |heads: usize| head_dim.map(|head_dim| head_dim.saturating_mul(heads));
    add(format!("{} * {from}", config.path("num_attention_heads")), Size::Queries, product(heads));
    let key = if kv_heads.is_some() { "num_key_value_heads" } else { "num_attention_heads" };
    add(format!("{} * {from}", config.path(key)), Size::KeyValues, product(kv_heads.unwrap_or(heads)));
    hints
}
