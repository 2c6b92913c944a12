//! Medusa heads with made-up weights.

use gorgon_draft::medusa::{MedusaConfig, ParameterSpec};
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::path::Path;

/// Random heads on states of width `d`.
pub fn write(dir: &Path, d: usize, vocab: usize) {
    let config = MedusaConfig { heads: 3, own_lm_heads: false, ..MedusaConfig::default() };
    let source = |spec: ParameterSpec| {
        let n = spec.shape.iter().product();
        let fill = Box::new(move |file: &mut dyn std::io::Write| {
            write_f32(file, &(0..n).map(|i| (i * 37 % 101) as f32 * 1e-3).collect::<Vec<f32>>())
        });
        Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
    };
    let sources: Vec<Source<'_>> = config.parameters(d, vocab).into_iter().map(source).collect();
    tensors::write(&dir.join("medusa_lm_head.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), config.document(d, vocab, "somewhere").to_string()).unwrap();
}
