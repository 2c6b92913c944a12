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
pub(super) fn layer_zero_format(inventory: &TensorIndex<'_>, claims: &ConfigHints<'_>) -> HeadsFormat {
    let names = ["d2t", "t2d", "norm.weight", "layers.0.hidden_norm.weight", "layers.0.input_layernorm.weight"];
    let named = names.iter().filter(|name| inventory.has(name)).count();
    let width = |name: &str, at: usize| inventory.get(name).and_then(|tensor| tensor.shape.get(at)).copied();
    let hidden = width("layers.0.self_attn.o_proj.weight", 0);
    let double = width("layers.0.self_attn.q_proj.weight", 1).filter(|width| width % 2 == 0).map(|width| width / 2);
    let wide = hidden.is_some() && hidden == double;
    if named + usize::from(wide) < 2 {
        HeadsFormat::Eagle1
    } else if claims.get("speculators_model_type").is_some() || claims.get("speculators_config").is_some() {
        HeadsFormat::Eagle3Speculators
    } else {
        HeadsFormat::Eagle3ModelOpt
    }
}

/// Compares an EAGLE draft layer with its format and config.
pub(super) fn check(
    format: HeadsFormat,
    inventory: &TensorIndex<'_>,
    claims: &ConfigHints<'_>,
    report: &mut Report,
) -> EagleSpec {
    if !claims.given() {
        report.note(layer::NO_CONFIG);
    }
    check_class(format, claims, report);
    if format == HeadsFormat::Eagle1 {
        check_one(inventory, claims, report)
    } else {
        three::check(format, inventory, claims, report)
    }
}

/// Class names tell EAGLE-1 from EAGLE-3, and some engines go by them.
fn check_class(format: HeadsFormat, claims: &ConfigHints<'_>, report: &mut Report) {
    let three = format != HeadsFormat::Eagle1;
    for class in claims.architectures() {
        let class = class.to_ascii_lowercase();
        if class.contains("eagle") && class.contains("eagle3") != three {
            let (claimed, found) = if three { ("EAGLE-1", "EAGLE-3") } else { ("EAGLE-3", "EAGLE-1") };
            report.problem(format!("config.json: architectures says {claimed}, but the tensors are {found}"));
        }
    }
}

fn check_one(inventory: &TensorIndex<'_>, claims: &ConfigHints<'_>, report: &mut Report) -> EagleSpec {
    let layer = Layer {
        prefix: "layers.0.".into(),
        attention_input: Size::Hidden.into(),
        norms: &["post_attention_layernorm"],
    };
    // The original constructs a bias unless told not to.
    let claimed_bias = claims.flag("bias", report);
    let has_bias = inventory.has("fc.bias");
    let expected_bias = has_bias || (claims.given() && claimed_bias.unwrap_or(true));
    let mut specs = Specs::default();
    specs.linear("fc", Size::Hidden, Size::Hidden.times(2), expected_bias);
    layer.add(&mut specs, inventory, false);
    specs.optional_matrix("embed_tokens.weight", Size::Vocab, Size::Hidden);
    let claimed = layer::claims(claims, report);
    let sizes = specs.sizes(inventory, &claimed);
    specs.check(inventory, &sizes, |_| false, report);
    sizes.check_claims(&claimed, report);
    check_layer(layer.qkv_bias(inventory), claims, report);
    check_one_flags(has_bias, claimed_bias, claims, report);
    EagleSpec {
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size: sizes.get(Size::Vocab),
        draft_vocab_size: None,
        hooks: 1,
        tap_layers: None,
        target_hidden_size: sizes.or_zero(Size::Hidden),
        layer: layer.facts(inventory, &sizes),
        fc_bias: has_bias,
        own_embedding: inventory.has("embed_tokens.weight"),
        vocab_map: false,
        tap_norms: false,
        input_norm: false,
        norm_before_residual: None,
        norm_output: None,
    }
}

fn check_one_flags(has_bias: bool, claimed_bias: Option<bool>, claims: &ConfigHints<'_>, report: &mut Report) {
    if has_bias && claimed_bias == Some(false) {
        report.problem("config.json: bias is false, but the file has fc.bias");
    }
    if !has_bias && claims.given() && claimed_bias.is_none() {
        report
            .problem("config.json: without \"bias\": false the original loader makes up the fc.bias that is not there");
    }
    if has_bias {
        report.note("vLLM has no place for fc.bias; heads without it load everywhere");
    }
    if claims.flag("add_para_norm", report) == Some(true) {
        report.problem("config.json: add_para_norm is true (HASS), but norms in front of fc are not supported");
    }
}
