//! EAGLE draft layers: one decoder layer behind a projection `fc` of the token's embedding and the target's features
//! (EAGLE-1/2), or of features from three depths of the target (EAGLE-3).

mod layer_flags;
mod three;

use self::layer_flags::check_layer;
use super::HeadsFormat;
use super::config_hints::ConfigHints;
use super::head_spec::EagleSpec;
use super::layer::{self, Layer};
use super::specs::{Size, Specs};
use super::tensor_index::{Report, TensorIndex};

/// Format of `layers.0.*`: EAGLE-1, or EAGLE-3 as speculators or ModelOpt name it. One stray or missing tensor must not
/// decide, so what only EAGLE-3 has is counted.
pub(super) fn layer_zero_format(index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> HeadsFormat {
    let names = ["d2t", "t2d", "norm.weight", "layers.0.hidden_norm.weight", "layers.0.input_layernorm.weight"];
    let named = names.iter().filter(|name| index.has(name)).count();
    let width = |name: &str, at: usize| index.get(name).and_then(|tensor| tensor.shape.get(at)).copied();
    let hidden = width("layers.0.self_attn.o_proj.weight", 0);
    let double = width("layers.0.self_attn.q_proj.weight", 1).filter(|width| width % 2 == 0).map(|width| width / 2);
    let wide = hidden.is_some() && hidden == double;
    if named + usize::from(wide) < 2 {
        HeadsFormat::Eagle1
    } else if hints.get("speculators_model_type").is_some() || hints.get("speculators_config").is_some() {
        HeadsFormat::Eagle3Speculators
    } else {
        HeadsFormat::Eagle3ModelOpt
    }
}

/// Compares an EAGLE draft layer with its format and config.
pub(super) fn check(
    format: HeadsFormat,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> EagleSpec {
    if !hints.given() {
        report.note(layer::NO_CONFIG);
    }
    check_class(format, hints, report);
    if format == HeadsFormat::Eagle1 {
        check_one(index, hints, report)
    } else {
        three::check(format, index, hints, report)
    }
}

/// Class names tell EAGLE-1 from EAGLE-3, and some engines go by them.
fn check_class(format: HeadsFormat, hints: &ConfigHints<'_>, report: &mut Report) {
    let three = format != HeadsFormat::Eagle1;
    for class in hints.architectures() {
        let class = class.to_ascii_lowercase();
        if class.contains("eagle") && class.contains("eagle3") != three {
            let (named, found) = if three { ("EAGLE-1", "EAGLE-3") } else { ("EAGLE-3", "EAGLE-1") };
            report.problem(format!("config.json: architectures says {named}, but the tensors are {found}"));
        }
    }
}

fn check_one(index: &TensorIndex<'_>, hints: &ConfigHints<'_>, report: &mut Report) -> EagleSpec {
    let layer = Layer {
        prefix: "layers.0.".into(),
        attention_input: Size::Hidden.into(),
        norms: &["post_attention_layernorm"],
    };
    // The original constructs a bias unless the config says not to.
    let claimed_bias = hints.flag("bias", report);
    let has_bias = index.has("fc.bias");
    let expected_bias = has_bias || (hints.given() && claimed_bias.unwrap_or(true));
    let mut specs = Specs::default();
    specs.linear("fc", Size::Hidden, Size::Hidden.times(2), expected_bias);
    layer.add(&mut specs, index, false);
    specs.optional_matrix("embed_tokens.weight", Size::Vocab, Size::Hidden);
    let named = layer::hints(hints, report);
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    check_layer(layer.qkv_bias(index), hints, report);
    check_one_flags(has_bias, claimed_bias, hints, report);
    EagleSpec {
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size: sizes.get(Size::Vocab),
        draft_vocab_size: None,
        hooks: 1,
        hook_layers: None,
        target_hidden_size: sizes.or_zero(Size::Hidden),
        layer: layer.spec(index, &sizes),
        fc_bias: has_bias,
        own_embedding: index.has("embed_tokens.weight"),
        vocab_map: false,
        hook_norms: false,
        input_norm: false,
        norm_before_residual: None,
        norm_output: None,
    }
}

fn check_one_flags(has_bias: bool, claimed_bias: Option<bool>, hints: &ConfigHints<'_>, report: &mut Report) {
    if has_bias && claimed_bias == Some(false) {
        report.problem("config.json: bias is false, but the file has fc.bias");
    }
    if !has_bias && hints.given() && claimed_bias.is_none() {
        report
            .problem("config.json: without \"bias\": false the original loader makes up the fc.bias that is not there");
    }
    if has_bias {
        report.note("vLLM has no place for fc.bias; heads without it load everywhere");
    }
    if hints.flag("add_para_norm", report) == Some(true) {
        report.problem("config.json: add_para_norm is true (HASS), but norms in front of fc are not supported");
    }
}
