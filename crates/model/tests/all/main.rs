//! Tests of gorgon-model that one process can run.

mod configs;
mod gguf;
mod passes;
mod quantised;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod t5;
