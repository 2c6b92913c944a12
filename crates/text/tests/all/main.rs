//! Tests of gorgon-text that one process can run.

mod fixtures;
#[path = "../rendering/mod.rs"]
mod rendering;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod template;
mod template_models;
