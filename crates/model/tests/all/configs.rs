//! Meaning of configs, family by family: spellings, defaults, windows.

use gorgon_model::config::ModelConfig;
use gorgon_model::rope::{RopeConfig, RopeScaling, RopeTable, yarn_attention};
use serde_json::{Value, json};

/// The least a config of a family says.
fn config(model_type: &str) -> Value {
    json!({
        "model_type": model_type, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 32, "vocab_size": 100
    })
}

fn config_with(model_type: &str, more: &Value) -> Value {
    let mut config = config(model_type);
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn with(model_type: &str, more: Value) -> ModelConfig {
    ModelConfig::from_json(&config_with(model_type, &more)).unwrap()
}

#[test]
fn absent_keys_get_the_defaults_of_their_family() {
    let mistral = with("mistral", json!({}));
    assert_eq!((mistral.kv_heads, mistral.windows[0], mistral.max_positions), (8, Some(4096), 131_072));
    let gemma = with("gemma2", json!({}));
    assert_eq!((gemma.head_dim, gemma.kv_heads, gemma.tied_embeddings), (256, 4, true));
    assert_eq!(
        (gemma.attention_soft_cap, gemma.final_soft_cap, gemma.attention_scale),
        (Some(50.0), Some(30.0), 0.0625)
    );
    assert_eq!(gemma.windows, [Some(4096), None, Some(4096), None]);
    let mixtral = with("mixtral", json!({}));
    assert_eq!((mixtral.rope.theta, mixtral.norm_eps, mixtral.windows[0]), (1e6, 1e-5, None));
    assert_eq!(mixtral.experts.map(|e| (e.count, e.per_token)), Some((8, 2)));
    assert_eq!(with("qwen3", json!({})).head_dim, 128);
    assert_eq!(with("llama", json!({})).kv_heads, 32);
    // Null is a statement: no window, no cap, heads as usual.
    let none = with("mistral", json!({"sliding_window": null, "num_key_value_heads": null, "head_dim": null}));
    assert_eq!((none.windows[0], none.kv_heads, none.head_dim), (None, 32, 2));
    assert_eq!(with("gemma2", json!({"final_logit_softcapping": null})).final_soft_cap, None);
}

#[test]
fn old_and_new_spellings_mean_the_same() {
    let old = with("llama", json!({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}));
    let new = with(
        "llama",
        json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 4.0}, "dtype": "x"}),
    );
    assert_eq!(old, new);
    assert_eq!(old.rope.scaling, RopeScaling::Linear { factor: 4.0 });
    let llama3 = json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4});
    let outside = with("llama", json!({"rope_scaling": llama3, "original_max_position_embeddings": 8192}));
    let expected = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_length: 8192.0 };
    assert_eq!(outside.rope.scaling, expected);
    let yarn = |more: Value| {
        let mut said = json!({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2048});
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match with("llama", json!({"rope_scaling": said})).rope.scaling {
            RopeScaling::Yarn { fast, slow, attention, truncate, .. } => (fast, slow, attention, truncate),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(yarn(json!({})), (32.0, 1.0, 0.1 * 4f64.ln() + 1.0, true));
    assert_eq!(yarn(json!({"attention_factor": 1.5, "beta_fast": 16, "truncate": false})), (16.0, 1.0, 1.5, false));
    assert_eq!(yarn(json!({"mscale": 0.7, "mscale_all_dim": 0.7})).2, 1.0);
    assert_eq!(with("llama", json!({"eos_token_id": [1, 2]})).eos_tokens, [1, 2]);
    assert_eq!(with("llama", json!({"eos_token_id": 3})).eos_tokens, [3]);
}

/// The rules of transformers 5.23 for keys that are given twice or left out; the base of the frequencies apart, which it
/// forgets where both objects are there.
#[test]
fn rope_scaling_beside_other_keys() {
    let linear = json!({"rope_type": "linear", "factor": 4.0});
    let both = json!({"rope_scaling": linear, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}});
    let both = with("llama", both).rope;
    assert_eq!((both.theta, both.scaling), (5e5, RopeScaling::Linear { factor: 4.0 }));
    let empty = with("llama", json!({"rope_scaling": {}, "rope_parameters": linear}));
    assert_eq!(empty.rope.scaling, RopeScaling::Linear { factor: 4.0 });
    let original = |more: Value| match with("llama", more).rope.scaling {
        RopeScaling::Llama3 { original_length, .. } | RopeScaling::Yarn { original_length, .. } => original_length,
        other => panic!("{other:?}"),
    };
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0});
    assert_eq!(original(json!({"rope_scaling": llama3, "max_position_embeddings": 512})), 512.0);
    let mut nested = llama3;
    nested["original_max_position_embeddings"] = json!(64);
    assert_eq!(original(json!({"rope_scaling": nested})), 64.0);
    assert_eq!(original(json!({"rope_scaling": nested, "original_max_position_embeddings": 12})), 12.0);
    let yarn = json!({"rope_type": "yarn", "original_max_position_embeddings": 128});
    match with("llama", json!({"rope_scaling": yarn, "max_position_embeddings": 512})).rope.scaling {
        RopeScaling::Yarn { factor, original_length, .. } => assert_eq!((factor, original_length), (4.0, 128.0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn scaling_extends_the_context() {
    let positions = |scaling: Value, given: usize| {
        with("llama", json!({"rope_scaling": scaling, "max_position_embeddings": given})).max_positions
    };
    assert_eq!(positions(json!({"type": "linear", "factor": 4.0}), 4096), 16384);
    let yarn = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768});
    assert_eq!(positions(yarn.clone(), 32768), 131_072);
    assert_eq!(positions(yarn.clone(), 131_072), 131_072);
    assert_eq!(positions(yarn, 40_960), 131_072);
    let llama3 = json!({"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0});
    assert_eq!(positions(llama3, 131_072), 131_072);
    assert_eq!(positions(Value::Null, 4096), 4096);
}

#[test]
fn settings_that_would_be_ignored_are_refused() {
    let refused = |model_type: &str, key: &str, value: Value| {
        let mut config = config(model_type);
        config["sliding_window"] = json!(8);
        config[key] = value;
        let error = ModelConfig::from_json(&config).unwrap_err();
        assert!(error.contains(key), "{error}");
    };
    let layers = json!({"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}});
    refused("qwen3", "rope_parameters", layers);
    refused("qwen2", "is_causal", json!(false));
    let types = json!(["full_attention", "sliding_attention", "full_attention", "sliding_attention"]);
    refused("phi3", "layer_types", types.clone());
    refused("mixtral", "layer_types", types);
    assert_eq!(with("llama", json!({"sliding_window": -1})).windows, [None; 4]);
}

#[test]
fn windows_follow_their_family() {
    let windows = |model_type: &str, more: Value| with(model_type, more).windows;
    assert_eq!(windows("qwen2", json!({"sliding_window": 8})), [None; 4]);
    let used = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3});
    assert_eq!(windows("qwen2", used), [None, None, None, Some(8)]);
    let types = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"];
    let listed = json!({"sliding_window": 9, "layer_types": types});
    assert_eq!(windows("gemma2", listed), [None, Some(9), None, Some(9)]);
    assert_eq!(windows("llama", json!({"sliding_window": 9})), [None; 4]);
    assert_eq!(windows("phi3", json!({"sliding_window": 9})), [Some(9); 4]);
}

#[test]
fn biases_only_where_the_family_has_them() {
    let biases = |model_type: &str| {
        let config = with(model_type, json!({"attention_bias": true, "mlp_bias": true}));
        (config.qkv_bias, config.o_bias, config.mlp_bias)
    };
    assert_eq!(biases("llama"), (true, true, true));
    assert_eq!(biases("qwen2"), (true, false, false));
    assert_eq!(biases("qwen3"), (true, true, false));
    assert_eq!(biases("mistral"), (false, false, false));
    assert_eq!(with("phi3", json!({"partial_rotary_factor": 0.5, "head_dim": 8})).rope.rotary_dim, 4);
    assert_eq!(with("llama", json!({"partial_rotary_factor": 0.5, "head_dim": 8})).rope.rotary_dim, 8);
}

#[test]
fn wrong_types_are_named() {
    for (key, value) in [("use_sliding_window", json!("yes")), ("layer_types", json!(["x", "x", "x", "x"]))] {
        let mut config = config("qwen2");
        config["use_sliding_window"] = json!(true);
        config[key] = value;
        assert!(ModelConfig::from_json(&config).unwrap_err().contains(key));
    }
}

/// Values of transformers 5.23 (`_compute_yarn_parameters`) for the same settings.
#[test]
fn yarn_is_that_of_transformers() {
    let yarn = |factor, attention, truncate| RopeScaling::Yarn {
        factor,
        fast: 32.0,
        slow: 1.0,
        original_length: 2048.0,
        attention,
        truncate,
    };
    let config = |scaling| RopeConfig { theta: 10_000.0, rotary_dim: 32, scaling };
    for (truncate, want) in [(true, TRUNCATED), (false, WHOLE)] {
        let found = config(yarn(4.0, yarn_attention(4.0, 1.0), truncate)).frequencies();
        for (found, want) in found.iter().zip(want) {
            assert!((found - want).abs() < 2e-6 * want, "{found} and {want}, truncated: {truncate}");
        }
    }
    let table = RopeTable::new(&config(yarn(4.0, yarn_attention(4.0, 1.0), true)));
    let length = table.at(2).0[0].hypot(table.at(2).1[0]);
    assert!((length - 1.138_629_4).abs() < 1e-6, "{length}");
    assert_eq!(yarn_attention(1.0, 1.0), 1.0);
}

/// Values of transformers 5.23 (`_compute_longrope_parameters`) for texts within the original context.
#[test]
fn long_rope_is_that_of_transformers() {
    let short = [1.0, 1.05, 1.1, 1.5, 2.0, 2.5, 3.0, 4.25];
    let scaling = json!({"type": "su", "short_factor": short, "long_factor": vec![1.0; 8]});
    let mut more = json!({"num_attention_heads": 4, "max_position_embeddings": 512, "rope_scaling": scaling});
    more["original_max_position_embeddings"] = json!(64);
    let config = with("phi3", more.clone());
    let wanted = [1.0, 0.301_169_3, 0.090_909_09, 0.021_081_85, 0.005, 0.001_264_911, 3.333_333e-4, 7.440_653e-5];
    for (found, want) in config.rope.frequencies().iter().zip(wanted) {
        assert!((found - want).abs() < 2e-6 * want, "{found} and {want}");
    }
    assert!((config.rope.attention() - 1.224_744_9).abs() < 1e-6);
    assert_eq!(config.max_positions, 64);
    let nested = json!({"original_max_position_embeddings": 64, "type": "longrope", "short_factor": short});
    let unnamed = json!({"num_attention_heads": 4, "max_position_embeddings": 131_072, "rope_scaling": nested});
    let unnamed = with("phi3", unnamed);
    assert_eq!(unnamed.max_positions, 4096);
    assert!((f64::from(unnamed.rope.attention()) - (1.0 + 32f64.ln() / 4096f64.ln()).sqrt()).abs() < 1e-6);
    let refused = |key: &str, value: Value| {
        let mut config = config_with("phi3", &more);
        config["rope_scaling"][key] = value;
        let error = ModelConfig::from_json(&config).unwrap_err();
        assert!(error.contains(key), "{error}");
    };
    refused("short_factor", json!([1.0]));
    refused("short_factor", json!([1, 1, 1, 1, 1, 1, 1, 0]));
    refused("short_factor", Value::Null);
    refused("attention_factor", json!(-1));
}

const TRUNCATED: [f32; 16] = [
    1.0,
    0.5623413,
    0.3162278,
    0.1778279,
    0.1,
    0.05020905,
    0.02484647,
    0.0120669,
    0.005714286,
    0.00261087,
    0.001129385,
    0.0004445699,
    0.00025,
    0.0001405853,
    7.905694e-5,
    4.445699e-5,
];
const WHOLE: [f32; 16] = [
    1.0,
    0.5623413,
    0.3162278,
    0.1778279,
    0.1,
    0.04945309,
    0.02387019,
    0.01120795,
    0.005056972,
    0.002143223,
    0.0008112904,
    0.0004445699,
    0.00025,
    0.0001405853,
    7.905694e-5,
    4.445699e-5,
];
