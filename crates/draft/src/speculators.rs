//! Configs as speculators writes them.

use serde_json::{Map, Value, json};

/// The keys of a decoder layer's config that its own writers know.
const LAYER_KEYS: [&str; 14] = [
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
];

/// The config of decoder layers, of which `class` is a model of the kind `model_type`.
pub(crate) fn layers(known: &Map<String, Value>, model_type: &str, class: &str) -> Map<String, Value> {
    let known = known.iter().filter(|(key, _)| LAYER_KEYS.contains(&key.as_str()));
    let mut layers: Map<String, Value> = known.map(|(key, value)| (key.clone(), value.clone())).collect();
    layers.insert("model_type".into(), model_type.into());
    layers.insert("architectures".into(), json!([class]));
    layers
}

/// The keys that say what the draft is, as which version of speculators writes it, how many tokens it drafts, and for
/// which model.
pub(crate) fn head(
    (kind, version): (&str, &str),
    class: &str,
    tokens: usize,
    (base, base_class): (&str, &str),
) -> Map<String, Value> {
    let document = json!({
        "architectures": [class], "speculators_model_type": kind, "speculators_version": version,
        "speculators_config": {
            "algorithm": kind, "default_proposal_method": "greedy",
            "proposal_methods": [{
                "proposal_type": "greedy", "speculative_tokens": tokens, "verifier_accept_k": 1, "accept_tolerance": 0.0
            }],
            "verifier": {"name_or_path": base, "architectures": [base_class]}
        },
    });
    match document {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
