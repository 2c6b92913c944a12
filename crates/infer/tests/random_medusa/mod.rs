//! Random Medusa heads.

use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaConfig, MedusaModel};
use gorgon_model::decoder::Decoder;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::path::Path;
use std::sync::Arc;

/// Writes random heads; `damage` changes the values of one head.
pub fn write(dir: &Path, decoder: &Decoder, own_lm_heads: bool, damage: Option<f32>) {
    let (d, vocab) = (decoder.config().hidden_size, decoder.config().vocab_size);
    let config = MedusaConfig { heads: 4, own_lm_heads, ..MedusaConfig::default() };
    let specs = config.parameters(d, vocab);
    let values = |i: usize, n: usize, bad: bool| -> Vec<f32> {
        let value = |j: usize| ((j * 7919 + i * 104_729) % 2003) as f32 / 1001.5 - 1.0;
        (0..n).map(|j| if bad { damage.unwrap_or_else(|| value(j)) } else { value(j) * 0.3 }).collect()
    };
    let sources: Vec<Source<'_>> = specs
        .into_iter()
        .enumerate()
        .map(|(i, spec)| {
            let n = spec.shape.iter().product();
            let values = values(i, n, damage.is_some() && spec.name.starts_with("1."));
            let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
            Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
        })
        .collect();
    tensors::write(&dir.join("medusa_lm_head.safetensors"), &sources).unwrap();
    let document = config.document(d, vocab, "somewhere");
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
}

/// Random heads of a decoder; `damage` changes the values of one of them.
pub fn model(decoder: &Arc<Decoder>, own_lm_heads: bool, damage: Option<f32>) -> MedusaModel {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), decoder, own_lm_heads, damage);
    MedusaModel::load(&HeadsFolder::open(dir.path()).unwrap(), decoder.clone()).unwrap()
}
