//! Prompts in, training shards out.

pub mod config;
pub mod distill;
pub mod drills;
pub mod manifest;
pub mod pack;
pub mod prompts;
pub mod render;
pub mod shard;
pub mod shuffle;
pub mod source;
pub mod trajectory;
pub mod vocabulary;
