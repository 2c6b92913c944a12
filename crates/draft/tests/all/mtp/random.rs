//! Random backbones and modules.

use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::mtp::{MtpConfig, MtpModel, MtpShape};
use gorgon_draft::parameter::{Init, ParameterSpec};
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

pub fn decoder() -> Arc<Decoder> {
    decoder_of(&SHAPE)
}

pub fn decoder_of(shape: &LlamaShape) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

pub fn shape(decoder: &Decoder, depths: usize) -> MtpShape {
    MtpShape { config: MtpConfig { depths }, layer: LayerShape::of(decoder.config()), first_layer: SHAPE.layers }
}

/// Values that keep activations their size.
pub fn values(i: usize, spec: &ParameterSpec) -> Vec<f32> {
    let norm = spec.init == Init::One;
    let scale = match spec.shape.as_slice() {
        [_, into] => 1.7 / (*into as f32).sqrt(),
        _ => 0.5,
    };
    let value = |j: usize| ((j * 7919 + (17 + i) * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    (0..spec.shape.iter().product()).map(|j| value(j) * scale + if norm { 1.0 } else { 0.0 }).collect()
}

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Writes modules; `change` may change tensors and config.
pub fn write(dir: &Path, shape: &MtpShape, change: impl FnOnce(&mut Tensors, &mut Value)) {
    let specs = shape.parameters();
    let one = |(i, spec): (usize, &ParameterSpec)| (spec.name.clone(), spec.shape.clone(), values(i, spec));
    let mut all: Tensors = specs.iter().enumerate().map(one).collect();
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

pub fn load(dir: &Path, decoder: &Arc<Decoder>) -> Result<MtpModel, HeadsError> {
    MtpModel::load(&HeadsFolder::open(dir)?, decoder.clone())
}

pub fn model(decoder: &Arc<Decoder>, depths: usize) -> MtpModel {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &shape(decoder, depths), |_, _| ());
    load(dir.path(), decoder).unwrap()
}
