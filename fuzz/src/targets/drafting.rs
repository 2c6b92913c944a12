//! Readers of trees and draft heads.

use super::sound::{SHAPE, decoder, with, written};
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::TreeShape;
use gorgon_draft::choice::Drafters;
use gorgon_draft::eagle::EagleShape;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::MedusaConfig;
use gorgon_runs::tensors::{self, Source};
use safetensors::Dtype;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

pub(super) fn tree(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(shape) = TreeShape::from_json(text) {
            let _ = shape.paths();
        }
        let _ = text.parse::<gorgon_core::tree::TreeChoice>();
        let _ = text.parse::<gorgon_core::accept::RuleChoice>();
    }
    with("calibration.json", bytes, |dir| {
        if let Ok(Some(record)) = CalibrationRecord::read(dir) {
            let _ = record.cost(8);
        }
    });
}

pub(super) fn tree_seeds() -> Vec<Vec<u8>> {
    let record = json!({
        "tree": [[0], [0, 0]], "accuracies": [[0.5, 0.2], [0.3]], "positions": 10, "children": [0.5], "chain": [0.5],
        "step_times": [{"nodes": 1, "seconds": 1.0, "draft_seconds": 0.1}, {"nodes": 2, "seconds": 1.5, "draft_seconds": 0.1}],
        "expected_tokens_per_step": 1.5, "expected_speedup": 1.1, "threads": 2, "device": "cpu", "dtype": "f32"
    });
    let seeds = ["[[0], [1], [0, 0], [0, 1], [0, 0, 0]]", "dynamic:60,5,10", "sequoia:64", "typical:0.3,0.09"];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    seeds.into_iter().chain([record.to_string().into_bytes()]).collect()
}

/// Medusa heads and an EAGLE layer for the sound model, and what their configs say.
pub(super) fn sound_heads() -> [(Vec<u8>, Vec<u8>); 2] {
    let zeros = |shapes: Vec<(String, Vec<usize>)>| {
        written("model.safetensors", |path| {
            let source = |(name, shape): (String, Vec<usize>)| {
                let bytes = shape.iter().product::<usize>() * 4;
                let fill = move |file: &mut dyn Write| file.write_all(&vec![0; bytes]);
                Source { name, dtype: Dtype::F32, shape, fill: Box::new(fill) }
            };
            let _ = tensors::write(path, &shapes.into_iter().map(source).collect::<Vec<_>>());
        })
    };
    let medusa = MedusaConfig { heads: 2, ..MedusaConfig::default() };
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let eagle = EagleShape::of(decoder().config(), false);
    let medusa_shapes = medusa.parameters(d, vocab).into_iter().map(|p| (p.name, p.shape)).collect();
    let eagle_shapes = eagle.parameters().into_iter().map(|p| (p.name.to_string(), p.shape)).collect();
    [
        (zeros(medusa_shapes), medusa.document(d, vocab, "m").to_string().into_bytes()),
        (zeros(eagle_shapes), eagle.document("m").to_string().into_bytes()),
    ]
}

pub(super) fn load_heads(dir: &Path) {
    let Ok(folder) = HeadsFolder::open(dir) else { return };
    // Damage may turn heads of one method into those of another.
    drop(Drafters::of_heads(folder.detected.format.method(), &folder, &decoder()));
}

pub(super) fn heads(bytes: &[u8]) {
    for (_, config) in sound_configs() {
        with("model.safetensors", bytes, |dir| {
            let _ = std::fs::write(dir.join("config.json"), config);
            load_heads(dir);
        });
    }
    with("pytorch_lm_head.safetensors", bytes, load_heads);
}

/// The sound heads, made once.
pub(super) fn sound_configs() -> &'static [(Vec<u8>, Vec<u8>); 2] {
    static HEADS: OnceLock<[(Vec<u8>, Vec<u8>); 2]> = OnceLock::new();
    HEADS.get_or_init(sound_heads)
}

pub(super) fn head_seeds() -> Vec<Vec<u8>> {
    sound_configs().iter().map(|(weights, _)| weights.clone()).collect()
}

pub(super) fn heads_config(bytes: &[u8]) {
    for (weights, _) in sound_configs() {
        with("config.json", bytes, |dir| {
            let _ = std::fs::write(dir.join("model.safetensors"), weights);
            load_heads(dir);
        });
    }
}

pub(super) fn heads_config_seeds() -> Vec<Vec<u8>> {
    sound_configs().iter().map(|(_, config)| config.clone()).collect()
}
