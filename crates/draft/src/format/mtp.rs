//! DeepSeek-style multi-token-prediction modules: layers after the backbone's last, each with a projection of the next
//! token's embedding and the hidden state in front.

use super::config_hints::ConfigHints;
use super::head_spec::MtpSpec;
use super::layer::{self, Layer};
use super::specs::{Size, Specs};
use super::tensor_index::{Report, TensorIndex, is_backbone, numbered, report_gap};
use std::collections::BTreeSet;

const LAYERS: &str = "model.layers.";

/// Prefix of a module's tensor names, the last dot included; `layer` is its number as a layer.
pub fn mtp_prefix(layer: usize) -> String {
    format!("{LAYERS}{layer}.")
}

/// The layer number of a name, and the name within the layer.
fn layer_of(name: &str) -> Option<(usize, &str)> {
    numbered(name.strip_prefix(LAYERS)?)
}

/// The layer number of a name that only multi-token-prediction modules have.
pub(super) fn module_of(name: &str) -> Option<usize> {
    let (layer, rest) = layer_of(name)?;
    let marks = ["enorm.", "hnorm.", "eh_proj.", "shared_head."];
    marks.iter().any(|mark| rest.starts_with(mark)).then_some(layer)
}

fn layer(prefix: &str) -> Layer {
    Layer {
        prefix: prefix.into(),
        attention_input: Size::Hidden.into(),
        norms: &["input_layernorm", "post_attention_layernorm"],
    }
}

/// Compares the modules with their format and config.
pub(super) fn check(index: &TensorIndex<'_>, hints: &ConfigHints<'_>, report: &mut Report) -> MtpSpec {
    let modules: BTreeSet<usize> = index.names().filter_map(module_of).collect();
    let first_layer = modules.first().copied().unwrap_or(0);
    report_gap("module in layer", first_layer, modules.iter().copied(), report);

    let prefixes: Vec<String> = modules.iter().map(|&layer| mtp_prefix(layer)).collect();
    let mut specs = Specs::default();
    for prefix in &prefixes {
        add_module(&mut specs, prefix, index);
    }
    // The backbone beside the modules must be of their size.
    specs.optional_matrix("model.embed_tokens.weight", Size::Vocab, Size::Hidden);
    specs.optional_matrix("lm_head.weight", Size::Vocab, Size::Hidden);
    let named = layer::hints(hints, report);
    let sizes = specs.sizes(index, &named);
    // Layers before the first module are the backbone's; none belong after the last.
    let foreign = |name: &str| is_backbone(name) && layer_of(name).is_none_or(|(layer, _)| layer < first_layer);
    specs.check(index, &sizes, foreign, report);
    sizes.check_hints(&named, report);
    check_layers(first_layer, modules.len(), hints, report);

    let has = |suffix: &str| prefixes.iter().any(|prefix| index.has(&format!("{prefix}{suffix}")));
    let first = prefixes.first().map_or("", String::as_str);
    MtpSpec {
        modules: modules.len(),
        first_layer,
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size: sizes.get(Size::Vocab),
        layer: layer(first).spec(index, &sizes),
        own_embedding: has("embed_tokens.weight"),
        own_lm_head: has("shared_head.head.weight"),
    }
}

fn add_module(specs: &mut Specs, prefix: &str, index: &TensorIndex<'_>) {
    let name = |suffix: &str| format!("{prefix}{suffix}");
    for norm in ["enorm.weight", "hnorm.weight", "shared_head.norm.weight"] {
        specs.vector(name(norm), Size::Hidden);
    }
    specs.linear(&name("eh_proj"), Size::Hidden, Size::Hidden.times(2), false);
    layer(prefix).add(specs, index, true);
    // Both are copies of the backbone's.
    specs.optional_matrix(name("shared_head.head.weight"), Size::Vocab, Size::Hidden);
    specs.optional_matrix(name("embed_tokens.weight"), Size::Vocab, Size::Hidden);
}

/// Modules are numbered on from the backbone's last layer.
fn check_layers(first_layer: usize, modules: usize, hints: &ConfigHints<'_>, report: &mut Report) {
    if let Some(layers) = hints.count("num_hidden_layers", report).filter(|layers| *layers != first_layer) {
        report.problem(format!(
            "config.json: num_hidden_layers is {layers}, but the first module is layer {first_layer}"
        ));
    }
    if let Some(named) = hints.heads("num_nextn_predict_layers", report).filter(|named| *named != modules) {
        report.note(format!("config.json: num_nextn_predict_layers is {named}, but there are {modules} modules"));
    }
    if !hints.given() {
        report.note(layer::NO_CONFIG);
    }
}
