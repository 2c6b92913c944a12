//! Kangaroo's adapter: a norm, an attention and a last norm, without a feed-forward network.

use super::config_hints::ConfigHints;
use super::head_spec::KangarooSpec;
use super::layer::{self, Layer};
use super::specs::{Size, Specs};
use super::tensor_index::{Report, TensorIndex};

/// The config key of the layers below the exit.
const EXIT: &str = "exit_layer";

/// Whether tensors that begin with a decoder layer are an adapter: the config names its exit, or there is neither a
/// feed-forward network nor a projection `fc` of several inputs.
pub(super) fn is_adapter(index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> bool {
    let named = hints.architectures().any(|class| class.to_ascii_lowercase().contains("kangaroo"));
    let feed_forward = index.names().any(|name| name.starts_with("layers.0.mlp."));
    named || hints.get(EXIT).is_some() || !feed_forward && !index.has("fc.weight")
}

/// Compares an adapter with its format and config.
pub(super) fn check(index: &TensorIndex<'_>, hints: &ConfigHints<'_>, report: &mut Report) -> KangarooSpec {
    let layer = Layer { prefix: "layers.0.".into(), attention_input: Size::Hidden.into(), norms: &["input_layernorm"] };
    let mut specs = Specs::default();
    layer.add_attention(&mut specs, index, false);
    specs.vector("norm.weight", Size::Hidden);
    let named = layer::hints(hints, report);
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    let heads = hints.count("num_attention_heads", report);
    let exit_layer = hints.count(EXIT, report);
    if exit_layer.is_none() && hints.get(EXIT).is_none() {
        report.problem(format!("config.json: {EXIT} is missing: add the number of the target's layers that it reads"));
    }
    KangarooSpec {
        exit_layer: exit_layer.unwrap_or(0),
        hidden_size: sizes.or_zero(Size::Hidden),
        heads,
        query_size: sizes.or_zero(Size::Queries),
        key_value_size: sizes.or_zero(Size::KeyValues),
        qkv_bias: layer.qkv_bias(index),
    }
}
