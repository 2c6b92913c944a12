//! Quantised checkpoints: matrices bit for bit, and decoders on them.

mod codes;
mod fixtures;
mod folder;
mod formats;
mod refused;
mod written;
