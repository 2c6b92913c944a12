//! EAGLE-3 under its three namings.

use super::layer_flags::check_layer;
use crate::format::HeadsFormat;
use crate::format::config_hints::ConfigHints;
use crate::format::head_spec::EagleSpec;
use crate::format::layer::{self, Layer};
use crate::format::specs::{Kind, Size, SizeHint, Sizes, Specs};
use crate::format::speculators;
use crate::format::tensor_index::{Report, TensorIndex, numbered};

/// The config key that lists the target's layers whose hidden states are read.
const AUX_LAYERS: &str = "eagle_aux_hidden_state_layer_ids";

/// A config, sorted by who reads which part of it.
struct Config<'a> {
    /// The whole.
    top: ConfigHints<'a>,
    /// Additions of ModelOpt and SpecForge.
    eagle: ConfigHints<'a>,
    /// The decoder layer's.
    layer: ConfigHints<'a>,
}

impl<'a> Config<'a> {
    fn new(format: HeadsFormat, hints: &ConfigHints<'a>) -> Self {
        let nested = format == HeadsFormat::Eagle3Speculators;
        let layer = if nested { hints.within("transformer_layer_config") } else { hints.clone() };
        Self { top: hints.clone(), eagle: hints.within("eagle_config"), layer }
    }

    /// A flag, wherever its writer puts it.
    fn flag(&self, key: &str, report: &mut Report) -> Option<bool> {
        let top = self.top.flag(key, report);
        let nested = self.eagle.flag(key, report);
        top.or(nested)
    }

    /// The hooked layers, as those that are entered. At the top of a config (speculators, vLLM) the numbers are these;
    /// inside `eagle_config` (SpecForge, ModelOpt, SGLang) they name layers by what leaves them, so that each is one
    /// less.
    fn hook_layers(&self, report: &mut Report) -> Option<Vec<usize>> {
        let top = self.top.layers(AUX_LAYERS, report);
        let left = self.eagle.layers(AUX_LAYERS, report);
        let nested: Option<Vec<usize>> =
            left.as_ref().map(|left| left.iter().map(|layer| layer.saturating_add(1)).collect());
        if let (Some(entered), Some(left), true) = (&top, &left, top.is_some() && nested.is_some() && top != nested) {
            report.problem(format!(
                "config.json: {AUX_LAYERS} are {entered:?}, the layers that are entered, but \
                 eagle_config.{AUX_LAYERS} are {left:?}, the layers that are left, each of which would be one less"
            ));
        }
        top.or(nested)
    }
}

/// Inputs of `fc`.
struct Hooks {
    /// Number of the target's hidden states.
    count: usize,
    /// Their layers, if the config lists them.
    layers: Option<Vec<usize>>,
    /// How many of them must have a norm each; 0 without such norms.
    norms: usize,
    /// One norm for all hooked states together.
    input_norm: bool,
}

/// Compares an EAGLE-3 draft layer with its format and config.
pub(super) fn check(
    format: HeadsFormat,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> EagleSpec {
    let config = Config::new(format, hints);
    let hooks = check_hooks(format, &config, index, report);
    let layer = layer_of(format);
    let specs = specs(format, &layer, &hooks, &config, index);
    let mut named = layer::hints(&config.layer, report);
    named.extend(config.top.size("target_hidden_size", Size::TargetHidden, report));
    named.extend(config.top.size("draft_vocab_size", Size::Draft, report));
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    check_layer(layer.qkv_bias(index), &config.layer, report);
    let target_hidden = check_features(hooks.count, hint(&named, Size::TargetHidden), &sizes, hints, report);
    let vocab_size = sizes.get(Size::Vocab).or_else(|| hint(&named, Size::Vocab));
    speculators::check_vocabularies(format, vocab_size, hints, (index, &sizes), report);
    if format == HeadsFormat::Eagle3Speculators {
        check_speculators(hints, report);
    }
    EagleSpec {
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size,
        draft_vocab_size: index.get("lm_head.weight").and_then(|_| sizes.get(Size::Draft)),
        hooks: hooks.count,
        hook_layers: hooks.layers,
        target_hidden_size: target_hidden,
        layer: layer.spec(index, &sizes),
        fc_bias: false,
        own_embedding: index.has("embed_tokens.weight"),
        vocab_map: index.has("d2t"),
        hook_norms: hooks.norms > 0,
        input_norm: hooks.input_norm,
        norm_before_residual: config.flag("norm_before_residual", report),
        norm_output: config.flag("norm_output", report),
    }
}

fn hook_norm(name: &str) -> bool {
    let norm = name.strip_prefix("fc_norm.").and_then(numbered);
    norm.is_some_and(|(_, rest)| rest == "weight")
}

fn hint(hints: &[SizeHint], size: Size) -> Option<usize> {
    hints.iter().find(|hint| hint.size == size).map(|hint| hint.value)
}

fn layer_of(format: HeadsFormat) -> Layer {
    let prefix = if format == HeadsFormat::Eagle3 { "midlayer." } else { "layers.0." };
    Layer {
        prefix: prefix.into(),
        attention_input: Size::Hidden.times(2),
        norms: &["input_layernorm", "hidden_norm", "post_attention_layernorm"],
    }
}

fn specs(format: HeadsFormat, layer: &Layer, hooks: &Hooks, config: &Config<'_>, index: &TensorIndex<'_>) -> Specs {
    let mut specs = Specs::default();
    specs.linear("fc", Size::Hidden, Size::Features, false);
    // speculators has two kinds of layers, of which Qwen3's has norms on queries and keys.
    let qwen3 = config.layer.text("model_type") == Some("qwen3");
    layer.add(&mut specs, index, format == HeadsFormat::Eagle3Speculators && qwen3);
    specs.vector("norm.weight", Size::Hidden);
    // `"draft_vocab_size": null` makes SGLang use the target's LM head.
    if config.top.is_null("draft_vocab_size") && !index.has("d2t") {
        specs.optional_matrix("lm_head.weight", Size::Draft, Size::Hidden);
    } else {
        specs.matrix("lm_head.weight", Size::Draft, Size::Hidden);
    }
    specs.optional_list("d2t", Kind::Id, Size::Draft);
    specs.optional_list("t2d", Kind::Mask, Size::Vocab);
    specs.optional_matrix("embed_tokens.weight", Size::Vocab, Size::Hidden);
    for hook in 0..hooks.norms {
        specs.vector(format!("fc_norm.{hook}.weight"), Size::TargetHidden);
    }
    if hooks.input_norm {
        specs.vector("input_norm.weight", Size::Features);
    }
    specs
}

/// Checks the inputs of `fc` against the flags: engines build the norms that the flags ask for and skip the rest.
fn check_hooks(format: HeadsFormat, config: &Config<'_>, index: &TensorIndex<'_>, report: &mut Report) -> Hooks {
    let norms = index.names().filter(|name| hook_norm(name)).count();
    let layers = config.hook_layers(report);
    let count = layers.as_ref().map_or(if norms > 0 { norms } else { 3 }, Vec::len);
    // The original names have no `input_norm`, so there it is unexpected.
    let input_norm = format != HeadsFormat::Eagle3 && index.has("input_norm.weight");
    for (key, found, name) in [("fc_norm", norms > 0, "fc_norm.*"), ("norm_before_fc", input_norm, "input_norm.weight")]
    {
        let named = config.flag(key, report);
        match (named, found) {
            (Some(true), false) => report.problem(format!("config.json: {key} is true, but the file has no {name}")),
            (Some(false) | None, true) if config.top.given() => {
                report.problem(format!("config.json: without \"{key}\": true engines ignore {name}"));
            }
            _ => {}
        }
    }
    if config.eagle.flag("use_aux_hidden_state", report) == Some(false) && index.has("fc.weight") {
        report.problem("config.json: eagle_config.use_aux_hidden_state is false, so engines ignore fc.weight");
    }
    // However many the config lists, hardly more are asked for than are there.
    let norms = if norms > 0 { count.min(norms.saturating_add(3)) } else { 0 };
    Hooks { count, layers, norms, input_norm }
}

/// The width of one hook: `fc` reads all of them side by side.
fn check_features(
    hooks: usize,
    named: Option<usize>,
    sizes: &Sizes,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> usize {
    let Some(features) = sizes.get(Size::Features) else { return 0 };
    let width = named.or_else(|| hints.given().then(|| sizes.get(Size::Hidden)).flatten());
    let found = if hooks > 0 && features % hooks == 0 { Some(features / hooks) } else { None };
    if found.is_none() || width.is_some_and(|width| found != Some(width)) {
        let width = width.map_or_else(String::new, |width| {
            format!(" of {} {width}", if named.is_some() { "target_hidden_size" } else { "hidden_size" })
        });
        report
            .problem(format!("wrong shape: fc.weight reads {features} features, not {hooks} aux hidden states{width}"));
    }
    if let Some(norm) = sizes.get(Size::TargetHidden).filter(|norm| found.is_some_and(|found| found != *norm)) {
        report.problem(format!("wrong shape: fc_norm.*.weight is [{norm}], but fc.weight reads {features} features"));
    }
    found.unwrap_or(0)
}

/// Keys that vLLM's reader of speculators configs needs, and the one that two readers default differently.
fn check_speculators(hints: &ConfigHints<'_>, report: &mut Report) {
    if hints.get("norm_before_residual").is_none() {
        report
            .problem("config.json: norm_before_residual is absent, which vLLM reads as true and speculators as false");
    }
    speculators::check("eagle3", hints, report);
}
