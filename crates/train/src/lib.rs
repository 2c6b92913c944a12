//! Fitting.

pub mod checkpoint;
pub mod config;
pub mod error;
pub mod head_step;
pub mod llama;
pub mod lora;
pub mod methods;
pub mod micro_batch;
pub mod optimizer;
pub mod parameters;
pub mod pretrain;
pub mod schedule;
pub mod trainer;
pub mod world;
