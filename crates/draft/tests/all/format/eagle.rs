//! EAGLE-1/2 and EAGLE-3 draft layers.

use crate::format::synthetic::{D, H, I, Tensors, V, assert_note, layer};
use gorgon_draft::format::{DetectError, EagleSpec, HeadSpec, HeadsFormat, detect};
use serde_json::{Value, json};

fn spec(spec: HeadSpec) -> EagleSpec {
    match spec {
        HeadSpec::Eagle(spec) => spec,
        other => panic!("{other:?}"),
    }
}

pub fn one(bias: bool) -> Tensors {
    let tensors = layer("layers.0.", H, &["post_attention_layernorm"]).with("embed_tokens.weight", &[V, H]);
    let tensors = tensors.with("fc.weight", &[H, 2 * H]);
    if bias { tensors.with("fc.bias", &[H]) } else { tensors }
}

/// EAGLE-3 with a draft vocabulary.
pub fn three(prefix: &str) -> Tensors {
    layer(prefix, 2 * H, &["input_layernorm", "hidden_norm", "post_attention_layernorm"])
        .with("fc.weight", &[H, 3 * H])
        .with("norm.weight", &[H])
        .with("lm_head.weight", &[D, H])
        .with("d2t", &[D])
        .with("t2d", &[V])
}

fn merged(mut config: Value, extra: Value) -> Value {
    for (key, value) in extra.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

pub fn llama(extra: Value) -> Value {
    let config = json!({"model_type": "llama", "hidden_size": H, "intermediate_size": I, "vocab_size": V,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1});
    merged(config, extra)
}

pub fn llama3(extra: Value) -> Value {
    let extra = merged(json!({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": D}), extra);
    llama(extra)
}

pub fn speculators(extra: Value) -> Value {
    let config = json!({"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3", "proposal_methods": [{"speculative_tokens": 3}],
            "verifier": {"name_or_path": "m"}},
        "transformer_layer_config": llama(json!({})), "draft_vocab_size": D, "norm_before_residual": false,
        "target_hidden_size": null, "eagle_aux_hidden_state_layer_ids": [2, 3, 4]});
    merged(config, extra)
}

#[test]
fn eagle_one() {
    let detected = one(true).clean(HeadsFormat::Eagle1, Some(&llama(json!({}))));
    assert_note(&detected, "vLLM has no place for fc.bias");
    let found = spec(detected.spec);
    assert_eq!((found.hidden_size, found.vocab_size, found.hooks, found.fc_bias), (H, Some(V), 1, true));
    assert_eq!((found.layer.intermediate_size, found.layer.key_value_size), (I, H / 2));
    let detected = one(false).clean(HeadsFormat::Eagle1, Some(&llama(json!({"bias": false}))));
    assert_eq!(detected.notes, [""; 0]);
    assert_note(&one(false).clean(HeadsFormat::Eagle1, None), "no config.json");
    let biased = ["q", "k", "v"].iter().fold(one(true), |tensors, name| {
        let rows = if *name == "q" { H } else { H / 2 };
        tensors.with(&format!("layers.0.self_attn.{name}_proj.bias"), &[rows])
    });
    let found = spec(biased.clean(HeadsFormat::Eagle1, Some(&llama(json!({"qkv_bias": true})))).spec);
    assert!(found.layer.qkv_bias);
    let missing = biased.clone().without("layers.0.self_attn.k_proj.bias");
    missing.broken(HeadsFormat::Eagle1, None, &["missing: layers.0.self_attn.k_proj.bias"]);
    let dropped = "config.json: without \"qkv_bias\": true the query, key and value biases are dropped";
    biased.broken(HeadsFormat::Eagle1, Some(&llama(json!({}))), &[dropped]);
}

#[test]
fn eagle_one_damaged() {
    let broken = |tensors: Tensors, problem: &str| tensors.broken(HeadsFormat::Eagle1, None, &[problem]);
    broken(one(true).without("layers.0.mlp.up_proj.weight"), "missing: layers.0.mlp.up_proj.weight");
    broken(one(true).without("fc.weight"), "missing: fc.weight");
    broken(one(true).with("lm_head.weight", &[V, H]), "unexpected: lm_head.weight");
    broken(one(true).with("layers.0.input_layernorm.weight", &[H]), "unexpected: layers.0.input_layernorm.weight");
    broken(one(true).reshaped("fc.weight", &[H, 3 * H]), "wrong shape: fc.weight is [64, 192], expected [64, 128]");
    let name = "layers.0.self_attn.o_proj.weight";
    let config = llama(json!({}));
    let wrong = format!("wrong shape: {name} is [64, 48], expected [64, 64]");
    one(true).reshaped(name, &[H, 48]).broken(HeadsFormat::Eagle1, Some(&config), &[&wrong]);
    broken(one(true).with("layers.1.mlp.up_proj.weight", &[I, H]), "unexpected: layers.1.mlp.up_proj.weight");
}

#[test]
fn eagle_one_against_its_config() {
    let broken = |bias, extra, problem: &str| {
        one(bias).broken(HeadsFormat::Eagle1, Some(&llama(extra)), &[problem]);
    };
    broken(true, json!({"bias": false}), "config.json: bias is false, but the file has fc.bias");
    broken(false, json!({"bias": true}), "missing: fc.bias");
    broken(
        true,
        json!({"num_attention_heads": 8}),
        "config.json: num_key_value_heads * hidden_size / num_attention_heads is 16, but the tensors say 32",
    );
    broken(
        true,
        json!({"num_attention_heads": 2, "head_dim": 16}),
        "config.json: num_attention_heads * head_dim is 32, but the tensors say 64",
    );
    broken(true, json!({"num_hidden_layers": 2}), "config.json: num_hidden_layers is 2, but a draft has one layer");
    broken(true, json!({"vocab_size": 9}), "config.json: vocab_size is 9, but the tensors say 512");
    broken(
        true,
        json!({"architectures": ["LlamaForCausalLMEagle3"]}),
        "config.json: architectures says EAGLE-3, but the tensors are EAGLE-1",
    );
    broken(
        true,
        json!({"add_para_norm": true}),
        "config.json: add_para_norm is true (HASS), but norms in front of fc are not supported",
    );
    broken(
        true,
        json!({"model_type": "medusa"}),
        "config.json: model_type belongs to medusa heads, but the tensors are eagle heads",
    );
    let absent = one(false).detect(HeadsFormat::Eagle1, Some(&llama(json!({})))).problems;
    assert_eq!(absent.len(), 2, "{absent:?}");
    assert_eq!(absent[0], "missing: fc.bias");
}

#[test]
fn eagle_three_under_its_namings() {
    let detected = three("midlayer.").clean(HeadsFormat::Eagle3, Some(&llama3(json!({}))));
    assert_eq!(detected.notes, [""; 0]);
    let found = spec(detected.spec);
    assert_eq!((found.hidden_size, found.vocab_size, found.draft_vocab_size), (H, Some(V), Some(D)));
    assert_eq!((found.hooks, found.target_hidden_size, found.vocab_map, found.own_embedding), (3, H, true, false));
    three("midlayer.").clean(HeadsFormat::Eagle3, None);

    let config = speculators(json!({}));
    let with_embedding = three("layers.0.").with("embed_tokens.weight", &[V, H]);
    let detected = with_embedding.clean(HeadsFormat::Eagle3Speculators, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let found = spec(detected.spec);
    assert_eq!((found.norm_before_residual, found.hook_layers), (Some(false), Some(vec![2, 3, 4])));
    assert!(found.own_embedding);

    let config = llama3(json!({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}));
    let detected = three("layers.0.").without("t2d").clean(HeadsFormat::Eagle3ModelOpt, Some(&config));
    assert_note(&detected, "no t2d");
    three("layers.0.").clean(HeadsFormat::Eagle3ModelOpt, None);
}

#[test]
fn eagle_three_variants() {
    // The whole vocabulary.
    let whole = three("midlayer.").without("d2t").without("t2d").reshaped("lm_head.weight", &[V, H]);
    let config = llama3(json!({"draft_vocab_size": V}));
    assert!(!spec(whole.clean(HeadsFormat::Eagle3, Some(&config)).spec).vocab_map);
    whole.clean(HeadsFormat::Eagle3, None);
    assert_note(
        &whole.clone().with("t2d", &[V]).with("d2t", &[V]).clean(HeadsFormat::Eagle3, Some(&config)),
        "not needed",
    );
    let none = whole.without("lm_head.weight");
    let found = spec(none.clean(HeadsFormat::Eagle3, Some(&llama3(json!({"draft_vocab_size": null})))).spec);
    assert_eq!((found.vocab_size, found.draft_vocab_size), (Some(V), None));
    none.broken(HeadsFormat::Eagle3, Some(&config), &["missing: lm_head.weight"]);
    // A target of another width.
    let wide = three("midlayer.").reshaped("fc.weight", &[H, 3 * 96]);
    let found = wide.clean(HeadsFormat::Eagle3, Some(&llama3(json!({"target_hidden_size": 96})))).spec;
    assert_eq!(spec(found).target_hidden_size, 96);
    // EAGLE-3.1.
    let normed = (0..3).fold(three("midlayer."), |tensors, hook| tensors.with(&format!("fc_norm.{hook}.weight"), &[H]));
    let config = llama3(json!({"fc_norm": true, "norm_output": true}));
    let found = spec(normed.clean(HeadsFormat::Eagle3, Some(&config)).spec);
    assert_eq!((found.hook_norms, found.norm_output), (true, Some(true)));
    let missing = normed.clone().without("fc_norm.1.weight");
    let listed = merged(config, json!({"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}));
    missing.broken(HeadsFormat::Eagle3, Some(&listed), &["missing: fc_norm.1.weight"]);
    normed.broken(
        HeadsFormat::Eagle3,
        Some(&llama3(json!({}))),
        &["config.json: without \"fc_norm\": true engines ignore fc_norm.*"],
    );
}

#[test]
fn speculators_variants() {
    let input = three("layers.0.").with("input_norm.weight", &[3 * H]);
    let config = speculators(json!({"norm_before_fc": true}));
    assert!(spec(input.clean(HeadsFormat::Eagle3Speculators, Some(&config)).spec).input_norm);
    let qwen = three("layers.0.").with("layers.0.self_attn.q_norm.weight", &[16]);
    let qwen = qwen.with("layers.0.self_attn.k_norm.weight", &[16]);
    let config = speculators(json!({"transformer_layer_config": llama(json!({"model_type": "qwen3"}))}));
    let found = spec(qwen.clean(HeadsFormat::Eagle3Speculators, Some(&config)).spec);
    assert_eq!(found.layer.qk_norm, Some(16));
    let unexpected = ["unexpected: layers.0.self_attn.k_norm.weight", "unexpected: layers.0.self_attn.q_norm.weight"];
    qwen.broken(HeadsFormat::Eagle3Speculators, Some(&speculators(json!({}))), &unexpected);
}

#[test]
fn eagle_three_damaged() {
    let format = HeadsFormat::Eagle3;
    let config = llama3(json!({}));
    let broken = |tensors: Tensors, problems: &[&str]| tensors.broken(format, Some(&config), problems);
    let whole = || three("midlayer.");
    broken(whole().without("d2t"), &["missing: d2t, as 256 of 512 tokens can be drafted"]);
    broken(whole().without("t2d"), &["missing: t2d, as 256 of 512 tokens can be drafted"]);
    broken(whole().reshaped("d2t", &[D - 1]), &["wrong shape: d2t is [255], expected [256]"]);
    broken(whole().reshaped("t2d", &[V, 1]), &["wrong shape: t2d is [512, 1], expected [?]"]);
    broken(whole().retyped("d2t", "F32"), &["unsupported type: d2t is F32, expected I64"]);
    broken(whole().without("midlayer.hidden_norm.weight"), &["missing: midlayer.hidden_norm.weight"]);
    broken(whole().with("fc.bias", &[H]), &["unexpected: fc.bias"]);
    broken(whole().with("input_norm.weight", &[3 * H]), &["unexpected: input_norm.weight"]);
    let narrow = "wrong shape: midlayer.self_attn.k_proj.weight is [32, 64], expected [32, 128]";
    broken(whole().reshaped("midlayer.self_attn.k_proj.weight", &[H / 2, H]), &[narrow]);
    let hooks = "wrong shape: fc.weight reads 128 features, not 3 aux hidden states of hidden_size 64";
    broken(whole().reshaped("fc.weight", &[H, 2 * H]), &[hooks]);
    // One missing tensor does not make EAGLE-1 of it.
    let missing = &["missing: layers.0.hidden_norm.weight"];
    three("layers.0.").without("layers.0.hidden_norm.weight").broken(HeadsFormat::Eagle3ModelOpt, None, missing);
}

#[test]
fn eagle_three_against_its_config() {
    let broken = |extra, problem: &str| {
        three("midlayer.").broken(HeadsFormat::Eagle3, Some(&llama3(extra)), &[problem]);
    };
    broken(json!({"draft_vocab_size": 128}), "config.json: draft_vocab_size is 128, but the tensors say 256");
    broken(
        json!({"draft_vocab_size": null}),
        "config.json: draft_vocab_size is absent, but 256 of 512 tokens can be drafted",
    );
    broken(
        json!({"architectures": ["LlamaForCausalLMEagle"]}),
        "config.json: architectures says EAGLE-1, but the tensors are EAGLE-3",
    );
    broken(
        json!({"target_hidden_size": 96}),
        "wrong shape: fc.weight reads 192 features, not 3 aux hidden states of target_hidden_size 96",
    );
    broken(
        json!({"eagle_aux_hidden_state_layer_ids": [1, 2]}),
        "wrong shape: fc.weight reads 192 features, not 2 aux hidden states of hidden_size 64",
    );
    broken(
        json!({"eagle_aux_hidden_state_layer_ids": "all"}),
        r#"config.json: eagle_aux_hidden_state_layer_ids is \"all\", not a list of layer numbers"#,
    );
    broken(json!({"fc_norm": true}), "config.json: fc_norm is true, but the file has no fc_norm.*");
    broken(
        json!({"eagle_config": {"use_aux_hidden_state": false}}),
        "config.json: eagle_config.use_aux_hidden_state is false, so engines ignore fc.weight",
    );
}

#[test]
fn speculators_against_their_config() {
    let broken = |extra, problem: &str| {
        three("layers.0.").broken(HeadsFormat::Eagle3Speculators, Some(&speculators(extra)), &[problem]);
    };
    broken(
        json!({"norm_before_residual": null}),
        "config.json: norm_before_residual is absent, which vLLM reads as true and speculators as false",
    );
    broken(json!({"speculators_model_type": "peagle"}), "config.json: speculators_model_type is peagle, not eagle3");
    broken(
        json!({"transformer_layer_config": llama(json!({"hidden_size": 32, "head_dim": 16}))}),
        "config.json: transformer_layer_config.hidden_size is 32, but the tensors say 64",
    );
    let config = speculators(json!({"speculators_config": {}}));
    let detected = three("layers.0.").clean(HeadsFormat::Eagle3Speculators, Some(&config));
    assert_note(&detected, "verifier.name_or_path is absent");
    assert_note(&detected, "speculative_tokens is absent");
}

#[test]
fn two_namings_at_once_are_refused() {
    let both = three("midlayer.").and(layer("layers.0.", H, &["post_attention_layernorm"]));
    let error = detect(&both.0, None).unwrap_err();
    assert!(matches!(error, DetectError::Ambiguous { second: HeadsFormat::Eagle3, .. }), "{error}");
}
