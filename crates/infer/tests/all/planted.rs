//! Random models of which some weights are planted.

use gorgon_core::Token;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::pass::SkippedSublayers;
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::path::Path;
use std::sync::Arc;

/// A name, a shape and values.
pub type Values = (String, Vec<usize>, Vec<f32>);

pub fn decoder(dir: &Path) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Writes tensors into a folder.
pub fn write(dir: &Path, tensors: Vec<Values>) {
    let source = |(name, shape, values): Values| {
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    tensors::write(&dir.join("model.safetensors"), &tensors.into_iter().map(source).collect::<Vec<_>>()).unwrap();
}

/// Changes the tensors of a folder.
pub fn rewrite(dir: &Path, change: impl Fn(&str, &mut [f32])) {
    let checkpoint = Checkpoint::open(dir).unwrap();
    let changed = checkpoint.entries().iter().map(|(name, entry)| {
        let mut values = checkpoint.read_all(name).unwrap();
        change(name, &mut values);
        (name.clone(), entry.shape.clone(), values)
    });
    let changed: Vec<Values> = changed.collect();
    // The file is mapped until then.
    drop(checkpoint);
    write(dir, changed);
}

/// The tensor that an attention or a feed-forward network adds to the residual stream through.
fn output(layer: usize, is_attention: bool) -> String {
    let name = if is_attention { "self_attn.o_proj" } else { "mlp.down_proj" };
    format!("model.layers.{layer}.{name}.weight")
}

/// Zeroes what some sub-layers of a model in a folder add to the residual stream.
pub fn silence(dir: &Path, sublayers: &SkippedSublayers) {
    let [attention, mlp] = sublayers.lists();
    let outputs =
        attention.iter().map(|&layer| output(layer, true)).chain(mlp.iter().map(|&layer| output(layer, false)));
    let outputs: Vec<String> = outputs.collect();
    rewrite(dir, |name, values| {
        if outputs.iter().any(|output| output == name) {
            values.fill(0.0);
        }
    });
}

/// A random model whose sub-layers of a set add nothing.
pub fn random(shape: LlamaShape, seed: u64, silent: &SkippedSublayers) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, seed).unwrap();
    silence(dir.path(), silent);
    decoder(dir.path())
}

/// All sub-layers.
pub fn everything(layers: usize) -> SkippedSublayers {
    let all: Vec<usize> = (0..layers).collect();
    SkippedSublayers::new(layers, &all, &all).unwrap()
}

/// A model that says a token after that token, and is sure of it. No layer adds anything, and the token's row of the LM
/// head is the token's state.
pub fn repeating(shape: LlamaShape, token: Token) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 5).unwrap();
    silence(dir.path(), &everything(shape.layers));
    let (d, token) = (shape.hidden_size, token as usize);
    let embedding = Checkpoint::open(dir.path()).unwrap().read_all("model.embed_tokens.weight").unwrap();
    let state = &embedding[token * d..][..d];
    rewrite(dir.path(), |name, values| {
        if name == "lm_head.weight" {
            values.fill(0.0);
            values[token * d..][..d].iter_mut().zip(state).for_each(|(weight, x)| *weight = 4.0 * x);
        }
    });
    decoder(dir.path())
}
