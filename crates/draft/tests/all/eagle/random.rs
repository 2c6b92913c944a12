//! Random backbones and draft layers.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::eagle::three::{DraftVocabulary, Eagle3Model, Eagle3Shape};
use gorgon_draft::eagle::{EagleModel, EagleShape};
use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_runs::tensors::{self, Source, Stored, write_f32};
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
pub fn parameter(i: usize, of: &ParameterSpec) -> Vec<f32> {
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
    let (mut all, mut document) = (values_of(&shape.parameters()), shape.document("somewhere"));
    change(&mut all, &mut document);
    write_files(dir, all, &[], &document);
}

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

fn values_of(parameters: &[ParameterSpec]) -> Tensors {
    parameters.iter().enumerate().map(|(i, p)| (p.name.clone(), p.shape.clone(), parameter(i, p))).collect()
}

fn write_files(dir: &Path, tensors: Tensors, stored: &[Stored], document: &Value) {
    let source = |(name, shape, values): (String, Vec<usize>, Vec<f32>)| {
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    let sources: Vec<Source<'_>> = tensors.into_iter().map(source).chain(stored.iter().map(Stored::source)).collect();
    tensors::write(&dir.join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
}

/// Every third token can be drafted.
pub fn vocabulary(size: usize) -> DraftVocabulary {
    let counts: Vec<u64> = (0..size).map(|token| u64::from(token % 3 == 1)).collect();
    DraftVocabulary::most_frequent(&counts, size / 3)
}

/// An EAGLE-3 layer with hooks 1, 1 and 2; `change` may change tensors, maps and config.
pub fn write_three(
    dir: &Path,
    decoder: &Decoder,
    vocabulary: &DraftVocabulary,
    change: impl FnOnce(&mut Tensors, &mut Vec<Stored>, &mut Value),
) {
    let shape = Eagle3Shape::of(decoder.config(), vec![1, 1, 2], vocabulary.len());
    let (mut all, mut stored) = (values_of(&shape.parameters()), vocabulary.stored());
    let mut document = shape.document("somewhere");
    change(&mut all, &mut stored, &mut document);
    write_files(dir, all, &stored, &document);
}

pub fn load_three(dir: &Path, decoder: &Arc<Decoder>) -> Result<Eagle3Model, HeadsError> {
    Eagle3Model::load(&HeadsFolder::open(dir)?, decoder.clone())
}

pub fn model_three(decoder: &Arc<Decoder>) -> Eagle3Model {
    let dir = tempfile::tempdir().unwrap();
    write_three(dir.path(), decoder, &vocabulary(SHAPE.vocab_size), |_, _, _| ());
    load_three(dir.path(), decoder).unwrap()
}

/// Flat tensors of values.
pub fn flat(values: Vec<f32>) -> Tensor<1> {
    let n = values.len();
    tensor(values, [1, n]).reshape([n])
}

pub fn load(dir: &Path, decoder: &Arc<Decoder>) -> Result<EagleModel, HeadsError> {
    EagleModel::load(&HeadsFolder::open(dir)?, decoder.clone())
}

pub fn model(decoder: &Arc<Decoder>, fc_bias: bool) -> EagleModel {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &EagleShape::of(decoder.config(), fc_bias), |_, _| ());
    load(dir.path(), decoder).unwrap()
}
