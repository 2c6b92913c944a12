//! Tests of gorgon-data that one process can run.

mod distill;
mod model;
mod render;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod source_array;
mod source_broken;
mod source_files;
mod source_formats;
mod source_help;
mod source_parquet;
mod source_random;
mod tools;
