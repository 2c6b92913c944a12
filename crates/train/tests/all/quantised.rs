//! Heads on a quantised backbone, its LM head included: as on the same matrices in floats.

use crate::on_backbone;

use burn::tensor::Device;
use gorgon_draft::medusa::{Heads, MedusaConfig};
use gorgon_kernels::Frozen;
use gorgon_model::device::FloatFormat;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{Stored, write};
use gorgon_train::methods::{HeadFitting, lm_head};
use on_backbone::{SHAPE, conversations_on, fitted};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::path::Path;

fn stored(name: String, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Stored {
    Stored { name, dtype, shape: shape.to_vec(), bytes }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes the model in `from` with all linear layers in integers of 8 bits, and a copy of those values in floats.
fn quantised(from: &Path, integers: &Path, copy: &Path) {
    let checkpoint = Checkpoint::open(from).unwrap();
    let (mut coded, mut plain) = (vec![], vec![]);
    for (name, entry) in checkpoint.entries() {
        let values = checkpoint.read_all(name).unwrap();
        let module = name.strip_suffix(".weight").unwrap();
        if entry.shape.len() != 2 || module == "model.embed_tokens" {
            let tensor = stored(name.clone(), Dtype::F32, &entry.shape, floats(&values));
            coded.push(tensor.clone());
            plain.push(tensor);
            continue;
        }
        let (mut codes, mut scales, mut rounded) = (vec![], vec![], vec![]);
        for row in values.chunks_exact(entry.shape[1]) {
            let scale = row.iter().fold(0f32, |most, value| most.max(value.abs())) / 127.0;
            scales.push(scale);
            for code in row.iter().map(|value| (value / scale).round() as i8) {
                codes.push(code as u8);
                rounded.push(scale * f32::from(code));
            }
        }
        coded.push(stored(name.clone(), Dtype::I8, &entry.shape, codes));
        coded.push(stored(format!("{module}.weight_scale"), Dtype::F32, &[entry.shape[0], 1], floats(&scales)));
        plain.push(stored(name.clone(), Dtype::F32, &entry.shape, floats(&rounded)));
    }
    for (dir, tensors) in [(integers, coded), (copy, plain)] {
        let sources: Vec<_> = tensors.iter().map(Stored::source).collect();
        write(&dir.join("model.safetensors"), &sources).unwrap();
        std::fs::copy(from.join("config.json"), dir.join("config.json")).unwrap();
    }
    let path = integers.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let weights = json!({"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true});
    config["quantization_config"] = json!({
        "quant_method": "compressed-tensors", "format": "int-quantized", "ignore": [],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}
    });
    std::fs::write(path, config.to_string()).unwrap();
}

/// Two Medusa heads on the backbone in `dir`, fitted for some steps.
fn two_heads(dir: &Path) -> Vec<Vec<f32>> {
    let data = conversations_on(dir);
    let (checkpoint, model) = (Checkpoint::open(dir).unwrap(), data.features.decoder.config().clone());
    let config = MedusaConfig { heads: 2, ..MedusaConfig::default() };
    let (hidden_size, vocab_size) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let lm_head = lm_head(&checkpoint, &model, &Device::flex(), Some(Frozen::default())).unwrap();
    let heads = Heads { config, hidden_size, vocab_size, chunk_rows: 16 };
    fitted(&HeadFitting { heads, lm_head, data, shuffle: None }, &dir.join("run"), 2, None)
}

#[test]
fn medusa_heads_on_integers_equal_those_on_floats() {
    let [from, integers, copy] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    SHAPE.write(from.path(), FloatFormat::F32, 5).unwrap();
    quantised(from.path(), integers.path(), copy.path());
    let checkpoint = Checkpoint::open(integers.path()).unwrap();
    assert_eq!(checkpoint.quantised_modules().len(), 15);
    assert_eq!(two_heads(integers.path()), two_heads(copy.path()));
}
