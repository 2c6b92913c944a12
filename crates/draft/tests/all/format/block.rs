//! Block drafters.

use crate::format::synthetic::{H, I, Tensors, V, layer};
use gorgon_draft::format::{BlockSpec, HeadSpec, HeadsFormat};
use serde_json::{Value, json};

const FORMAT: HeadsFormat = HeadsFormat::DFlash;

pub fn drafter(layers: usize) -> Tensors {
    let ends =
        Tensors::default().with("fc.weight", &[H, 3 * H]).with("hidden_norm.weight", &[H]).with("norm.weight", &[H]);
    (0..layers).fold(ends, |all, number| {
        let prefix = format!("layers.{number}.");
        let norms = ["q_norm", "k_norm"].map(|norm| format!("{prefix}self_attn.{norm}.weight"));
        all.and(layer(&prefix, H, &["input_layernorm", "post_attention_layernorm"]))
            .with(&norms[0], &[16])
            .with(&norms[1], &[16])
    })
}

/// With an LM head of all tokens.
pub fn with_lm_head(layers: usize) -> Tensors {
    drafter(layers).with("lm_head.weight", &[V, H])
}

/// A config in the form of speculators, with some keys replaced.
pub fn speculators(more: Value) -> Value {
    let layers = json!({"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": H, "vocab_size": V,
        "intermediate_size": I, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 2048});
    let mut config = json!({"architectures": ["DFlashDraftModel"], "speculators_model_type": "dflash",
        "speculators_config": {"verifier": {"name_or_path": "owner/base"},
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 15}]},
        "transformer_layer_config": layers, "draft_vocab_size": V, "block_size": 16, "mask_token_id": 151_669,
        "aux_hidden_state_layer_ids": [2, 10, 34], "sliding_window_non_causal": false, "sample_from_anchor": false});
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    config
}

/// With the parts of DFlash 2.
pub fn second(layers: usize) -> Tensors {
    let tables = ["predecessor", "successor"].map(|table| format!("candidate_selector.{table}_codebook"));
    let all = drafter(layers)
        .with(&tables[0], &[V, 8])
        .with(&tables[1], &[V, 8])
        .with("candidate_selector.hidden_projection.weight", &[8, H]);
    (0..layers).fold(all, |all, number| {
        ["attention_conv", "mlp_conv"].iter().fold(all, |all, name| {
            let name = format!("layers.{number}.{name}");
            all.with(&format!("{name}.base_kernel"), &[2, 2, H])
                .with(&format!("{name}.kernel_projection.weight"), &[H / 4, H])
        })
    })
}

pub fn second_config() -> Value {
    config(json!({"architectures": ["DFlash2DraftModel"], "block_size": 8, "dflash_config": {
        "mask_token_id": 5, "target_layer_ids": [1, 9, 33], "block_size": 8, "conv_group_size": 16,
        "conv_kernel_size": 2, "selector_top_k": 16, "selector_rank": 8}}))
}

pub fn config(more: Value) -> Value {
    let mut config = json!({"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 16,
        "num_hidden_layers": 2, "num_target_layers": 36, "hidden_size": H, "vocab_size": V, "intermediate_size": I,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 2048,
        "dflash_config": {"mask_token_id": 151_669, "target_layer_ids": [1, 9, 33]}});
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    config
}

fn spec(more: Value) -> BlockSpec {
    match drafter(2).clean(FORMAT, Some(&config(more))).spec {
        HeadSpec::Block(spec) => spec,
        other => panic!("{other:?}"),
    }
}

/// Layers that are left are layers that are entered, one more; sliding layers are causal unless a key says otherwise.
#[test]
fn sizes_and_flags_are_read() {
    let found = spec(json!({}));
    assert_eq!((found.layers, found.slots, found.hidden_size, found.vocab_size), (2, 16, H, Some(V)));
    assert_eq!((found.hook_layers, found.target_layers, found.mask_token), (vec![2, 10, 34], Some(36), 151_669));
    assert_eq!((found.windows, found.causal), (vec![Some(2048), None], vec![true, false]));
    assert_eq!((found.layer.query_size, found.layer.key_value_size, found.layer.qk_norm), (H, H / 2, Some(16)));
    assert_eq!(spec(json!({"is_causal": false})).causal, [false, false]);
    let own = json!({"mask_token_id": 5, "target_layer_ids": [1, 9, 33], "causal": true, "block_size": 8});
    let found = spec(json!({"block_size": null, "dflash_config": own}));
    assert_eq!((found.slots, found.causal), (8, vec![true, true]));
}

/// speculators names layers that are entered; its sliding layers are causal unless a key says otherwise, and full ones
/// never are.
#[test]
fn the_form_of_speculators_is_read() {
    let of = |more: Value| match with_lm_head(2).clean(HeadsFormat::DFlashSpeculators, Some(&speculators(more))).spec {
        HeadSpec::Block(spec) => spec,
        other => panic!("{other:?}"),
    };
    let found = of(json!({}));
    assert_eq!((found.layers, found.slots, found.hidden_size, found.vocab_size), (2, 16, H, Some(V)));
    assert_eq!((found.hook_layers, found.target_layers, found.mask_token), (vec![2, 10, 34], None, 151_669));
    assert_eq!((found.windows, found.causal), (vec![Some(2048), None], vec![true, false]));
    assert_eq!((found.draft_vocab_size, found.own_embedding, found.vocab_map), (Some(V), false, false));
    assert_eq!(of(json!({"sliding_window_non_causal": true})).causal, [false, false]);
    let format = HeadsFormat::DFlashSpeculators;
    // Newer writers leave the LM head out where it would be the whole one.
    drafter(2).clean(format, Some(&speculators(json!({}))));
    let some = speculators(json!({"draft_vocab_size": V - 1}));
    drafter(2).broken(format, Some(&some), &["missing: lm_head.weight, as some tokens cannot be drafted"]);
    let absent = with_lm_head(2).detect(format, Some(&speculators(json!({"sliding_window_non_causal": null}))));
    assert!(absent.problems.is_empty() && absent.notes[0].starts_with("sliding_window_non_causal is absent"));
    let shifted = with_lm_head(2).detect(format, Some(&speculators(json!({"shift_label": true}))));
    assert!(shifted.problems[0].contains("shift_label is true"), "{:?}", shifted.problems);
    let parts = second(2).with("lm_head.weight", &[V, H]).detect(format, Some(&speculators(json!({})))).problems;
    assert!(parts.iter().all(|problem| problem.starts_with("unexpected: ")) && parts.len() == 11, "{parts:?}");
}

#[test]
fn the_parts_of_the_second_version_are_read() {
    let HeadSpec::Block(found) = second(2).clean(FORMAT, Some(&second_config())).spec else { panic!("another method") };
    assert_eq!((found.slots, found.conv, found.selector), (8, true, Some((16, 8))));
    let problems = |change: fn(&mut Value)| {
        let mut config = second_config();
        change(&mut config["dflash_config"]);
        second(2).detect(FORMAT, Some(&config)).problems
    };
    let absent = problems(|own| own["selector_top_k"] = Value::Null);
    assert_eq!(absent, ["config.json: dflash_config.selector_top_k is absent"]);
    let other = problems(|own| own["selector_rank"] = 9.into());
    assert_eq!(other, ["config.json: dflash_config.selector_rank is 9, but the tensors say 8"]);
}

#[test]
fn damage_is_named() {
    let broken = |tensors: Tensors, more: Value, problem: &str| {
        tensors.broken(FORMAT, Some(&config(more)), &[problem]);
    };
    broken(drafter(2).without("hidden_norm.weight"), json!({}), "missing: hidden_norm.weight");
    let norm = "layers.1.self_attn.k_norm.weight";
    broken(drafter(2).without(norm), json!({}), &format!("missing: {norm}"));
    broken(drafter(2).with("candidate.x", &[1]), json!({}), "unexpected: candidate.x");
    let absent = json!({"mask_token_id": 5});
    broken(drafter(2), json!({"dflash_config": absent}), "config.json: dflash_config.target_layer_ids is absent");
    broken(drafter(2), json!({"block_size": null}), "config.json: block_size is absent");
    let eagle = json!({"architectures": ["LlamaForCausalLMEagle3"]});
    broken(drafter(2), eagle, "config.json: architectures belongs to eagle heads, but the tensors are block heads");
    let alone = drafter(2).detect(FORMAT, None);
    assert_eq!(alone.problems.len(), 1);
    assert!(alone.problems[0].starts_with("no config.json"), "{:?}", alone.problems);
}
