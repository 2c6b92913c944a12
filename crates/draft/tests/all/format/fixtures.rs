//! Heads as the reference implementations saved them.

use crate::format::synthetic::Tensors;
use crate::shared::shared;
use gorgon_draft::format::{HeadSpec, HeadsFormat, LmHeads, TensorInfo};
use serde_json::Value;
use std::path::Path;

/// The header of a safetensors file: its length in eight bytes, then JSON.
fn header(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&rest[..length]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    let info = |(name, entry): (&String, &Value)| TensorInfo {
        name: name.clone(),
        shape: entry["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect(),
        dtype: entry["dtype"].as_str().unwrap().into(),
    };
    Tensors(tensors.map(info).collect())
}

fn read(dir: &str, file: &str, test: &str) -> Option<(Tensors, Value)> {
    let dir = shared(dir, test)?;
    let config = std::fs::read(dir.join("config.json")).unwrap();
    Some((header(&dir.join(file)), serde_json::from_slice(&config).unwrap()))
}

#[test]
fn medusa_heads() {
    let dir = "fixtures/medusa/run_llama_mha";
    let Some((tensors, config)) = read(dir, "medusa_lm_head.safetensors", "medusa_heads") else { return };
    let detected = tensors.clean(HeadsFormat::MedusaV1, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let HeadSpec::Medusa(spec) = detected.spec else { panic!("{:?}", detected.spec) };
    assert_eq!((spec.heads, spec.blocks, spec.hidden_size, spec.vocab_size), (4, 1, 64, Some(512)));
    assert_eq!(spec.lm_heads, LmHeads::PerHead);
}

#[test]
fn eagle_one() {
    let dir = "fixtures/eagle/eagle1_llama_mha";
    let Some((tensors, config)) = read(dir, "model.safetensors", "eagle_one") else { return };
    let detected = tensors.clean(HeadsFormat::Eagle1, Some(&config));
    let HeadSpec::Eagle(spec) = detected.spec else { panic!("{:?}", detected.spec) };
    assert_eq!((spec.hidden_size, spec.vocab_size, spec.fc_bias), (64, Some(512), true));
    assert_eq!((spec.layer.intermediate_size, spec.layer.query_size, spec.layer.key_value_size), (128, 64, 64));
    tensors.without("fc.bias").detect(HeadsFormat::Eagle1, Some(&config)).problems.first().expect("it is missing");
}

#[test]
fn eagle_three() {
    let dir = "fixtures/eagle/eagle3_llama_7layer_bf16";
    let Some((tensors, config)) = read(dir, "model.safetensors", "eagle_three") else { return };
    let detected = tensors.clean(HeadsFormat::Eagle3, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let HeadSpec::Eagle(spec) = detected.spec else { panic!("{:?}", detected.spec) };
    assert_eq!((spec.hidden_size, spec.vocab_size, spec.draft_vocab_size), (64, Some(512), Some(256)));
    assert_eq!((spec.hooks, spec.target_hidden_size, spec.vocab_map), (3, 64, true));
}
