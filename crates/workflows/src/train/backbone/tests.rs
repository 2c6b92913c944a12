//! Tests of `backbone`.

use super::*;
use gorgon_data::render::Example;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use std::collections::BTreeSet;

#[test]
fn missing_records_change_no_part() {
    let text = "method = \"medusa\"\nmodel = \"m\"\ndata = \"d\"\nheld_out = 0.3\nseed = 2\n";
    let config = crate::config::embedded::<TrainConfig>(text).unwrap();
    let row = |(row, key): (u64, u64)| Row {
        row,
        key,
        id: String::new(),
        source: String::new(),
        line: row + 1,
        category: None,
        example: Example::default(),
        ends: vec![],
        shard: String::new(),
    };
    let held = |keys: &[u64]| -> BTreeSet<u64> {
        let rows = keys.iter().enumerate().map(|(i, key)| row((i as u64, *key)));
        rows.filter(|row| is_held_out(row, &config)).map(|row| row.key).collect()
    };
    let keys: Vec<u64> = (0..200_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let all = held(&keys);
    assert!((30..90).contains(&all.len()), "{}", all.len());
    let mut left = all.clone();
    left.remove(&keys[0]);
    assert_eq!(held(&keys[1..]), left);
}

/// Weights that are fitted have to be floats; the message says which are not.
#[test]
fn quantised_weights_are_not_fitted() {
    let shape = LlamaShape {
        hidden_size: 16,
        intermediate_size: 24,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        vocab_size: 260,
        max_positions: 32,
    };
    let mut config = shape.config(FloatFormat::F32);
    let plain = ModelConfig::from_json(&config).unwrap();
    assert!(refuse_quantised(Path::new("some/model"), &plain).is_ok());
    config["quantization_config"] = serde_json::json!({"quant_method": "awq", "bits": 4, "group_size": 128});
    let quantised = ModelConfig::from_json(&config).unwrap();
    let message = refuse_quantised(Path::new("some/model"), &quantised).unwrap_err().message().to_owned();
    assert!(message.contains("some/model") && message.contains("quantised (awq)"), "{message}");
}
