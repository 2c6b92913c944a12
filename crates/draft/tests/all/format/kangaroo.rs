//! Kangaroo's adapter.

use crate::format::synthetic::{H, Tensors, V};
use gorgon_draft::format::{HeadSpec, HeadsFormat, KangarooSpec};
use serde_json::{Value, json};

const FORMAT: HeadsFormat = HeadsFormat::Kangaroo;

pub fn adapter() -> Tensors {
    let projection = |name: &str| format!("layers.0.self_attn.{name}.weight");
    Tensors::default()
        .with("layers.0.input_layernorm.weight", &[H])
        .with(&projection("q_proj"), &[H, H])
        .with(&projection("k_proj"), &[H / 2, H])
        .with(&projection("v_proj"), &[H / 2, H])
        .with(&projection("o_proj"), &[H, H])
        .with("norm.weight", &[H])
}

pub fn config() -> Value {
    json!({"architectures": ["KangarooAdapter"], "hidden_size": H, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "vocab_size": V, "exit_layer": 2})
}

#[test]
fn an_adapter_is_recognised_with_and_without_a_config() {
    let found = adapter().clean(FORMAT, Some(&config()));
    let spec = KangarooSpec {
        exit_layer: 2,
        hidden_size: H,
        heads: Some(4),
        query_size: H,
        key_value_size: H / 2,
        qkv_bias: false,
    };
    assert_eq!(found.spec, HeadSpec::Kangaroo(spec));
    let found = adapter().detect(FORMAT, None);
    assert_eq!(
        found.problems,
        ["config.json: exit_layer is missing: add the number of the target's layers that it reads"]
    );
}

#[test]
fn contradictions_are_named() {
    for (key, value, problem) in [
        ("exit_layer", json!(0), "config.json: exit_layer is 0, not a count of 1 or more"),
        ("hidden_size", json!(32), "config.json: hidden_size is 32, but the tensors say 64"),
        ("num_key_value_heads", json!(4), "num_key_value_heads * "),
    ] {
        let mut config = config();
        config[key] = value;
        let problems = adapter().detect(FORMAT, Some(&config)).problems;
        assert!(problems.iter().any(|found| found.contains(problem)), "{problems:?}");
    }
    let stray = adapter().with("layers.0.mlp.up_proj.weight", &[H, H]);
    assert_eq!(stray.detect(FORMAT, Some(&config())).problems, ["unexpected: layers.0.mlp.up_proj.weight"]);
}
