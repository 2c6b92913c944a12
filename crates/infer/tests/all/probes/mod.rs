//! Probes cost or save time, never change text: whatever they say, and whichever tree they stand in.

mod decoding;
mod fixtures;
mod states;

use gorgon_draft::format::ProbeKind;
use gorgon_draft::probes::{ProbeModel, ProbeShape};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use std::path::Path;
use std::sync::Arc;

/// A model.
pub fn load(dir: &Path) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// A kind of probes, its places and members, and whether it looks ahead in passes of its own.
pub type Kind = (ProbeKind, usize, usize, bool);

/// Probes with these values.
pub fn probes(decoder: &Arc<Decoder>, (kind, places, members, two_pass): Kind, values: Vec<f32>) -> ProbeModel {
    let (hidden_size, vocab_size) = (decoder.config().hidden_size, decoder.config().vocab_size);
    let shape = ProbeShape { kind, places, members, hidden_size, vocab_size, two_pass };
    assert_eq!(values.len(), shape.rows() * hidden_size);
    ProbeModel::of(shape, values, decoder.clone())
}
