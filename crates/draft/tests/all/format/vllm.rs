//! vLLM's Medusa.

use crate::format::synthetic::{D, H, Tensors, V, assert_note};
use gorgon_draft::format::{HeadSpec, HeadsFormat, LmHeads, MedusaSpec};
use serde_json::{Value, json};

const FORMAT: HeadsFormat = HeadsFormat::MedusaVllm;

pub fn heads(prefix: &str, bias: bool, rows: usize) -> Tensors {
    let mut tensors = Tensors::default();
    for head in 0..3 {
        let block = format!("{prefix}blocks.{head}.layers.0");
        tensors = if bias { tensors.linear(&block, H, H) } else { tensors.with(&format!("{block}.weight"), &[H, H]) };
        tensors = tensors.with(&format!("{prefix}lm_heads.{head}.weight"), &[rows, H]);
    }
    tensors
}

fn shared(bias: bool) -> Tensors {
    let tensors = heads("", bias, V).without("lm_heads.1.weight").without("lm_heads.2.weight");
    tensors.renamed("lm_heads.0.weight", "lm_head.weight")
}

pub fn config(extra: Value) -> Value {
    let mut config = json!({"model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": H,
        "vocab_size": V, "num_heads": 3, "num_hidden_layers": 1});
    for (key, value) in extra.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

fn spec(spec: HeadSpec) -> MedusaSpec {
    match spec {
        HeadSpec::Medusa(spec) => spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn heads_are_recognised_with_and_without_prefix() {
    for prefix in ["", "medusa_heads."] {
        let detected = heads(prefix, false, V).clean(FORMAT, Some(&config(json!({}))));
        assert_eq!(detected.notes, [""; 0]);
        let found = spec(detected.spec);
        assert_eq!((found.heads, found.blocks, found.hidden_size, found.vocab_size), (3, 1, H, Some(V)));
        assert_eq!((found.bias, &found.lm_heads), (false, &LmHeads::PerHead));
        assert_eq!(found.naming.linear(2, 0), format!("{prefix}blocks.2.layers.0"));
    }
}

#[test]
fn biases_need_their_flag() {
    let flag = config(json!({"medusa_fc_bias": true}));
    assert!(spec(heads("", true, V).clean(FORMAT, Some(&flag)).spec).bias);
    heads("", true, V).clean(FORMAT, None);
    let dropped = &["config.json: without \"medusa_fc_bias\": true vLLM drops the biases that the file has"];
    heads("", true, V).broken(FORMAT, Some(&config(json!({}))), dropped);
    heads("", true, V).broken(FORMAT, Some(&config(json!({"medusa_fc_bias": false}))), dropped);
    let absent = &["config.json: medusa_fc_bias is true, but the file has no biases"];
    heads("", false, V).broken(FORMAT, Some(&flag), absent);
    let one = heads("", true, V).without("blocks.1.layers.0.bias");
    one.broken(FORMAT, Some(&flag), &["missing: blocks.1.layers.0.bias"]);
}

#[test]
fn a_shared_lm_head_needs_its_flag() {
    let flag = config(json!({"original_lm_head": true}));
    let tensor = |tensors: &Tensors| spec(tensors.clean(FORMAT, Some(&flag)).spec).lm_heads;
    assert_eq!(tensor(&shared(false)), LmHeads::Shared { tensor: "lm_head.weight".into() });
    let first = shared(false).renamed("lm_head.weight", "lm_heads.0.weight");
    assert_eq!(tensor(&first), LmHeads::Shared { tensor: "lm_heads.0.weight".into() });
    let dropped = &["config.json: without \"original_lm_head\": true vLLM drops lm_head.weight"];
    shared(false).broken(FORMAT, Some(&config(json!({}))), dropped);
    let all = &["config.json: original_lm_head is true, so vLLM drops all LM heads but the first"];
    heads("", false, V).broken(FORMAT, Some(&flag), all);
    heads("", false, V).with("lm_head.weight", &[V, H]).broken(FORMAT, None, &["unexpected: lm_head.weight"]);
    let none = shared(false).without("lm_head.weight");
    none.broken(FORMAT, Some(&flag), &["missing: lm_head.weight"]);
}

#[test]
fn truncated_vocabularies_are_consistent() {
    let flag = config(json!({"truncated_vocab_size": D}));
    for rows in [D, V] {
        let found = spec(heads("", false, rows).with("token_map", &[D]).clean(FORMAT, Some(&flag)).spec);
        assert_eq!((found.vocab_size, found.draft_vocab_size), (Some(V), Some(D)));
    }
    let mapped = heads("", false, D).with("token_map", &[D]);
    assert_eq!(spec(mapped.clean(FORMAT, None).spec).vocab_size, None);
    let broken = |tensors: &Tensors, config: &Value, problems: &[&str]| tensors.broken(FORMAT, Some(config), problems);
    let missing = "missing: token_map, which truncated_vocab_size in config.json calls for";
    broken(&heads("", false, V), &flag, &[missing]);
    let absent = "config.json: truncated_vocab_size is absent, but token_map lists 256 tokens";
    broken(&mapped, &config(json!({})), &[absent]);
    broken(
        &heads("", false, D).with("token_map", &[D + 1]),
        &config(json!({"truncated_vocab_size": D + 1})),
        &[
            "token_map lists 257 tokens, but the LM heads have 256 rows",
            "config.json: vocab_size is 512, but the LM heads have 256 rows",
        ],
    );
    broken(
        &heads("", false, V - 1),
        &config(json!({})),
        &["config.json: vocab_size is 512, but the LM heads have 511 rows"],
    );
    let wrong = "unsupported type: token_map is I32, expected I64";
    broken(&mapped.clone().retyped("token_map", "I32"), &flag, &[wrong]);
}

#[test]
fn configs_are_held_against_the_tensors() {
    let tensors = heads("", false, V);
    assert_note(&tensors.clean(FORMAT, Some(&config(json!({"num_heads": 5})))), "num_heads is 5, but there are 3");
    let other = config(json!({"num_attention_heads": 32}));
    assert_note(&tensors.clean(FORMAT, Some(&other)), "vLLM takes num_attention_heads for the number of Medusa heads");
    assert_note(&tensors.clean(FORMAT, Some(&json!({"num_heads": 3}))), "vLLM will not recognise");
    let layers = &["config.json: num_hidden_layers is 2, but heads have 1 blocks"];
    tensors.broken(FORMAT, Some(&config(json!({"num_hidden_layers": 2}))), layers);
    let hidden = &["config.json: hidden_size is 4096, but the tensors say 64"];
    tensors.broken(FORMAT, Some(&config(json!({"hidden_size": 4096}))), hidden);
    let typed = &["config.json: medusa_fc_bias is 1, not true or false"];
    tensors.broken(FORMAT, Some(&config(json!({"medusa_fc_bias": 1}))), typed);
}
