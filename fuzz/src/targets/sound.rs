//! Sound files that hostile ones are made from.

use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub(super) const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 32,
};

/// A folder with one hostile file.
pub(super) fn with(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let Ok(dir) = tempfile::tempdir() else { return };
    if std::fs::write(dir.path().join(name), bytes).is_ok() {
        read(dir.path());
    }
}

/// A sound model, written once.
pub(super) fn model() -> &'static Path {
    static MODEL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let write = || {
        let dir = tempfile::tempdir().expect("a folder for a model");
        SHAPE.write(dir.path(), FloatFormat::F32, 1).expect("a model");
        dir
    };
    MODEL.get_or_init(write).path()
}

pub(super) fn decoder() -> Arc<Decoder> {
    static DECODER: OnceLock<Arc<Decoder>> = OnceLock::new();
    let load = || Arc::new(Decoder::load(model(), &Compute::cpu(FloatFormat::F32)).expect("a model"));
    DECODER.get_or_init(load).clone()
}

pub(super) fn file(name: &str) -> Vec<u8> {
    std::fs::read(model().join(name)).unwrap_or_default()
}

/// Reads a small sound file back after `write`.
pub(super) fn written(name: &str, write: impl FnOnce(&Path)) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder");
    write(&dir.path().join(name));
    std::fs::read(dir.path().join(name)).unwrap_or_default()
}
