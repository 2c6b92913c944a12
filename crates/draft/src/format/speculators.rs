//! Checks of configs as speculators writes them, and of draft vocabularies.

use super::HeadsFormat;
use super::config_hints::ConfigHints;
use super::specs::{Size, Sizes};
use super::tensor_index::{Report, TensorIndex, shown};
use serde_json::Value;

/// The config key of everything that belongs to the draft's decoder layers.
pub const LAYERS: &str = "transformer_layer_config";

/// Checks the keys that vLLM's reader needs.
pub fn check(kind: &str, hints: &ConfigHints<'_>, report: &mut Report) {
    match hints.text("speculators_model_type") {
        Some(named) if named == kind => {}
        Some(other) => {
            report.problem(format!("config.json: speculators_model_type is {}, not {kind}", shown(other)));
        }
        None => report.problem(format!("config.json: speculators_model_type is absent, not {kind}")),
    }
    if !hints.within(LAYERS).given() {
        report.problem(format!("config.json: {LAYERS} is absent"));
    }
    let nested = hints.within("speculators_config");
    if nested.within("verifier").text("name_or_path").is_none() {
        report.note("vLLM will refuse this head: speculators_config.verifier.name_or_path is absent");
    }
    let methods = nested.get("proposal_methods").and_then(Value::as_array);
    let tokens = methods.and_then(|methods| methods.first()).and_then(|first| first.get("speculative_tokens"));
    if tokens.is_none_or(|tokens| tokens.as_u64().is_none()) {
        report.note("vLLM will refuse this head: speculators_config.proposal_methods[0].speculative_tokens is absent");
    }
}

/// A draft vocabulary needs its maps; SGLang and vLLM read only `d2t`, training reads both, and ModelOpt writes `d2t`.
pub fn check_vocabularies(
    format: HeadsFormat,
    vocab: Option<usize>,
    hints: &ConfigHints<'_>,
    (index, sizes): (&TensorIndex<'_>, &Sizes),
    report: &mut Report,
) {
    let (d2t, t2d) = (index.has("d2t"), index.has("t2d"));
    let (Some(draft), Some(vocab)) = (sizes.get(Size::Draft), vocab) else {
        if !d2t && t2d {
            report.problem("missing: d2t, which belongs to t2d");
        }
        return;
    };
    if draft > vocab {
        report.problem(format!("wrong shape: {draft} tokens can be drafted, but the target has {vocab}"));
    }
    if draft == vocab {
        if d2t || t2d {
            report.note("d2t and t2d are not needed: every token can be drafted");
        }
        return;
    }
    if hints.given() && hints.get("draft_vocab_size").is_none() {
        report
            .problem(format!("config.json: draft_vocab_size is absent, but {draft} of {vocab} tokens can be drafted"));
    }
    if !d2t {
        report.problem(format!("missing: d2t, as {draft} of {vocab} tokens can be drafted"));
    }
    if !t2d && format == HeadsFormat::Eagle3ModelOpt {
        report.note("no t2d: drafting does not need it, further training does");
    } else if !t2d {
        report.problem(format!("missing: t2d, as {draft} of {vocab} tokens can be drafted"));
    }
}
