//! Random backbones and heads.

use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_draft::hydra::{HydraConfig, HydraModel, HydraShape};
use gorgon_draft::layer::LayerShape;
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

/// Hydra, Hydra with LM heads of its own, and Hydra++.
pub fn kinds() -> [HydraConfig; 3] {
    let plain = HydraConfig { heads: 3, ..HydraConfig::default() };
    [
        plain,
        HydraConfig { own_lm_heads: true, blocks: 2, ..plain },
        HydraConfig { prefix_attention: true, soft_targets: true, blocks: 4, tied_blocks: true, ..plain },
    ]
}

pub fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

pub fn shape(decoder: &Decoder, config: HydraConfig) -> HydraShape {
    HydraShape { config, layer: LayerShape::of(decoder.config()) }
}

/// Values that keep activations their size. Blocks that are tied get the same ones.
pub fn values(spec: &ParameterSpec) -> Vec<f32> {
    let tied = ["5.", "7."].iter().fold(spec.name.clone(), |name, at| name.replace(&format!(".{at}"), ".3."));
    let seed = tied.bytes().fold(7usize, |sum, byte| (sum * 31 + byte as usize) % 100_003);
    let scale = match (spec.shape.as_slice(), spec.init) {
        (_, Init::One) => 0.3,
        ([_, into], _) => 1.7 / (*into as f32).sqrt(),
        _ => 0.5,
    };
    let base = if spec.init == Init::One { 1.0 } else { 0.0 };
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    (0..spec.shape.iter().product()).map(|i| base + value(i) * scale).collect()
}

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Writes heads; `change` may change tensors and config.
pub fn write(dir: &Path, shape: &HydraShape, change: impl FnOnce(&mut Tensors, &mut Value)) {
    let mut all: Tensors =
        shape.parameters().iter().map(|spec| (spec.name.clone(), spec.shape.clone(), values(spec))).collect();
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

pub fn load(dir: &Path, decoder: &Arc<Decoder>) -> Result<HydraModel, HeadsError> {
    HydraModel::load(&HeadsFolder::open(dir)?, decoder.clone())
}

pub fn model(decoder: &Arc<Decoder>, config: HydraConfig) -> HydraModel {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &shape(decoder, config), |_, _| ());
    load(dir.path(), decoder).unwrap()
}
