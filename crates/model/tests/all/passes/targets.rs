//! Models and targets that have read something.

use crate::shared;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 48,
    intermediate_size: 70,
    layers: 4,
    heads: 4,
    kv_heads: 2,
    vocab_size: 333,
    max_positions: 64,
};

pub fn load(dir: &Path) -> Arc<Decoder> {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    let compute = Compute::resolve(device.parse().unwrap(), Some(FloatFormat::F32)).unwrap();
    Arc::new(Decoder::load(dir, &compute).unwrap())
}

pub fn random() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 7).unwrap();
    load(dir.path())
}

/// A random model, and the reference backbone of every architecture.
pub fn decoders(test: &str) -> Vec<(String, Arc<Decoder>)> {
    let mut all = vec![("random".to_owned(), random())];
    let Some(root) = shared::shared("fixtures/backbones", test) else { return all };
    for entry in std::fs::read_dir(root).unwrap() {
        let dir = entry.unwrap().path();
        if dir.join("expected.safetensors").is_file() {
            all.push((dir.file_name().unwrap().to_string_lossy().into_owned(), load(&dir)));
        }
    }
    all
}

pub fn tokens(decoder: &Decoder, count: usize, salt: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * 53 + salt * 29 + 5) % decoder.config().vocab_size) as u32).collect()
}

/// A target that has read 21 tokens, which is more than the windows of the reference backbones.
pub fn started(decoder: &Arc<Decoder>, hooks: Hooks) -> DecoderTarget {
    let mut target = DecoderTarget::new(decoder.clone(), 128, hooks);
    target.prefill(&tokens(decoder, 21, 0)).unwrap();
    target
}

pub fn plain(decoder: &Arc<Decoder>) -> DecoderTarget {
    started(decoder, Hooks::none())
}

#[track_caller]
pub fn same(what: &str, got: &HiddenStates, want: &HiddenStates) {
    let exact = got.on_host().is_some();
    let (got, want) = (got.clone().into_values(), want.clone().into_values());
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(if exact { got == want } else { worst < 1e-3 }, "{what}: {worst:e}");
}

/// Seven nodes with branches.
pub const PARENTS: [usize; 7] = [0, 0, 0, 1, 1, 3, 5];

pub fn layers(plan: PassPlan<'_>, layers: Range<usize>) -> PassPlan<'_> {
    PassPlan { layers: Some(layers), ..plan }
}
