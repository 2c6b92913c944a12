//! Quantised checkpoints: matrices bit for bit, and decoders on them.

#[path = "../../../core/tests/shared/mod.rs"]
mod shared;

mod codes;
mod fixtures;
mod folder;
mod formats;
mod refused;
mod written;
