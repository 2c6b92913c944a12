//! Multi-token-prediction modules.

use crate::format::synthetic::{H, I, Tensors, V, assert_note, backbone, layer};
use gorgon_draft::format::{HeadSpec, HeadsFormat, MtpSpec};
use serde_json::json;

const FORMAT: HeadsFormat = HeadsFormat::Mtp;

pub fn module(number: usize) -> Tensors {
    let prefix = format!("model.layers.{number}.");
    layer(&prefix, H, &["input_layernorm", "post_attention_layernorm", "enorm", "hnorm", "shared_head.norm"])
        .with(&format!("{prefix}eh_proj.weight"), &[H, 2 * H])
}

fn spec(spec: HeadSpec) -> MtpSpec {
    match spec {
        HeadSpec::Mtp(spec) => spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn modules_alone_and_beside_their_backbone() {
    let alone = module(2).clean(FORMAT, None);
    assert_note(&alone, "no config.json");
    let found = spec(alone.spec);
    assert_eq!((found.modules, found.first_layer, found.hidden_size, found.vocab_size), (1, 2, H, None));
    assert_eq!((found.layer.intermediate_size, found.layer.query_size, found.own_lm_head), (I, H, false));

    let config = json!({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": H,
        "vocab_size": V, "intermediate_size": I, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_nextn_predict_layers": 2});
    let whole = backbone()
        .and(module(2))
        .and(module(3))
        .with("model.layers.2.embed_tokens.weight", &[V, H])
        .with("model.layers.2.shared_head.head.weight", &[V, H])
        .with("model.layers.2.self_attn.q_norm.weight", &[16])
        .with("model.layers.2.self_attn.k_norm.weight", &[16]);
    let detected = whole.clean(FORMAT, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let found = spec(detected.spec);
    assert_eq!((found.modules, found.vocab_size, found.layer.qk_norm), (2, Some(V), Some(16)));
    assert!(found.own_embedding && found.own_lm_head);
}

#[test]
fn damage_is_named() {
    let whole = || backbone().and(module(2));
    let broken = |tensors: Tensors, problem: &str| tensors.broken(FORMAT, None, &[problem]);
    broken(whole().without("model.layers.2.hnorm.weight"), "missing: model.layers.2.hnorm.weight");
    broken(
        whole().reshaped("model.layers.2.eh_proj.weight", &[H, H]),
        "wrong shape: model.layers.2.eh_proj.weight is [64, 64], expected [64, 128]",
    );
    broken(whole().with("model.layers.2.mlp.gate.weight", &[8, H]), "unexpected: model.layers.2.mlp.gate.weight");
    broken(whole().with("model.layers.3.mlp.x", &[1]), "unexpected: model.layers.3.mlp.x");
    broken(whole().and(module(4)), "missing: module in layer 3, although there is module in layer 4");
}

#[test]
fn configs_are_held_against_the_tensors() {
    let broken = |config, problem: &str| module(2).broken(FORMAT, Some(&config), &[problem]);
    broken(json!({"num_hidden_layers": 3}), "config.json: num_hidden_layers is 3, but the first module is layer 2");
    broken(json!({"intermediate_size": 1}), "config.json: intermediate_size is 1, but the tensors say 112");
    let config = json!({"num_nextn_predict_layers": 3});
    assert_note(&module(2).clean(FORMAT, Some(&config)), "but there are 1 modules");
}
