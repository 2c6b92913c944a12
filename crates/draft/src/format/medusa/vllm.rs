//! Parts that only vLLM's Medusa has: optional biases, a shared LM head, a truncated vocabulary.

use super::{MedusaNaming, Part};
use crate::format::config_hints::ConfigHints;
use crate::format::head_spec::{LmHeads, MedusaSpec};
use crate::format::specs::{Kind, Size, Sizes, Specs};
use crate::format::tensor_index::{Report, TensorIndex, shown};

/// Whether the file has an LM head per head or one for all, which may be stored as that of head 0.
pub(super) fn lm_heads(naming: MedusaNaming, index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> LmHeads {
    let shared = format!("{}lm_head.weight", naming.prefix());
    let own: Vec<usize> = index
        .names()
        .filter_map(|name| naming.part(name))
        .filter_map(|part| if let Part::LmHead { head } = part { Some(head) } else { None })
        .collect();
    let named = hints.get("original_lm_head").and_then(serde_json::Value::as_bool) == Some(true);
    if own.is_empty() && (named || index.has(&shared)) {
        LmHeads::Shared { tensor: shared }
    } else if named && own == [0] {
        LmHeads::Shared { tensor: naming.lm_head(0, 0) }
    } else {
        LmHeads::PerHead
    }
}

/// Adds the list of tokens that can be drafted.
pub(super) fn add_token_map(naming: MedusaNaming, specs: &mut Specs) {
    specs.optional_list(&format!("{}token_map", naming.prefix()), Kind::Id, Size::Draft);
}

/// Compares with the config; settles the vocabularies.
pub(super) fn check(spec: &mut MedusaSpec, sizes: &Sizes, hints: &ConfigHints<'_>, report: &mut Report) {
    check_flags(spec, hints, report);
    check_vocabularies(spec, sizes, hints, report);
    if hints.given() && hints.text("model_type") != Some("medusa") {
        report.note("vLLM will not recognise these heads: `model_type` in config.json is not \"medusa\"");
    }
    for key in hints.keys().filter(|key| key.contains("num") && key.contains("heads")) {
        if !["num_heads", "medusa_num_heads", "num_medusa_heads"].contains(&key) {
            let key = shown(key);
            report.note(format!("config.json: vLLM takes {key} for the number of Medusa heads"));
        }
    }
}

fn check_flags(spec: &MedusaSpec, hints: &ConfigHints<'_>, report: &mut Report) {
    if !hints.given() {
        return;
    }
    match (hints.flag("medusa_fc_bias", report).unwrap_or(false), spec.bias) {
        (false, true) => {
            report.problem("config.json: without \"medusa_fc_bias\": true vLLM drops the biases that the file has")
        }
        (true, false) => report.problem("config.json: medusa_fc_bias is true, but the file has no biases"),
        _ => {}
    }
    match (hints.flag("original_lm_head", report).unwrap_or(false), &spec.lm_heads) {
        (false, LmHeads::Shared { tensor }) => {
            report.problem(format!("config.json: without \"original_lm_head\": true vLLM drops {tensor}"));
        }
        (true, LmHeads::PerHead) => {
            report.problem("config.json: original_lm_head is true, so vLLM drops all LM heads but the first")
        }
        _ => {}
    }
}

/// `lm_heads` have a row per token of `token_map`, or of the whole vocabulary and are cut while loading.
fn check_vocabularies(spec: &mut MedusaSpec, sizes: &Sizes, hints: &ConfigHints<'_>, report: &mut Report) {
    let (rows, map) = (sizes.get(Size::Vocab), sizes.get(Size::Draft));
    let vocab = hints.count("vocab_size", report);
    let truncated = hints.count("truncated_vocab_size", report);
    spec.draft_vocab_size = map;
    spec.vocab_size = vocab.or(if rows == map { None } else { rows });
    if let (Some(map), Some(rows)) = (map, rows)
        && map > rows
    {
        report.problem(format!("token_map lists {map} tokens, but the LM heads have {rows} rows"));
    }
    if let (Some(vocab), Some(rows)) = (vocab, rows)
        && rows != vocab
        && (map.is_none() || rows != map.unwrap_or(0) || rows > vocab)
    {
        report.problem(format!("config.json: vocab_size is {vocab}, but the LM heads have {rows} rows"));
    }
    let cut = truncated.is_some() && truncated < vocab.or(rows);
    match map {
        None if cut => report.problem("missing: token_map, which truncated_vocab_size in config.json calls for"),
        Some(map) if hints.given() && truncated != Some(map) => {
            let named = truncated.map_or_else(|| "absent".into(), |size| size.to_string());
            report.problem(format!("config.json: truncated_vocab_size is {named}, but token_map lists {map} tokens"));
        }
        _ => {}
    }
}
