//! Random backbones and draft layers.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::eagle::{EagleModel, EagleParameter, EagleShape};
use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 96,
};

pub fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

pub fn tensor(values: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

pub fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Values that keep activations their size.
pub fn parameter(i: usize, of: &EagleParameter) -> Vec<f32> {
    let n = of.shape.iter().product();
    let scale = match of.shape.as_slice() {
        [_, into] => 1.7 / (*into as f32).sqrt(),
        _ => 0.5,
    };
    values(n, 17 + i).into_iter().map(|v| v * scale + if of.name.contains("norm") { 1.0 } else { 0.0 }).collect()
}

/// Writes a draft layer; `change` may change tensors and config.
pub fn write(
    dir: &Path,
    shape: &EagleShape,
    change: impl FnOnce(&mut Vec<(String, Vec<usize>, Vec<f32>)>, &mut Value),
) {
    let mut all: Vec<(String, Vec<usize>, Vec<f32>)> = shape
        .parameters()
        .iter()
        .enumerate()
        .map(|(i, p)| (p.name.to_owned(), p.shape.clone(), parameter(i, p)))
        .collect();
    let mut document = shape.document("somewhere");
    change(&mut all, &mut document);
    let source = |(name, shape, values): (String, Vec<usize>, Vec<f32>)| {
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    let sources: Vec<Source<'_>> = all.into_iter().map(source).collect();
    tensors::write(&dir.join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
}

pub fn load(dir: &Path, decoder: &Arc<Decoder>) -> Result<EagleModel, HeadsError> {
    EagleModel::load(&HeadsFolder::open(dir)?, decoder.clone())
}

pub fn model(decoder: &Arc<Decoder>, fc_bias: bool) -> EagleModel {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &EagleShape::of(decoder.config(), fc_bias), |_, _| ());
    load(dir.path(), decoder).unwrap()
}
