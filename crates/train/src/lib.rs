//! Training: draft heads, draft layers and draft models for a frozen backbone, and small backbones from scratch.
//!
//! [`trainer`] has the one training loop. [`methods`] has what it fits: an [`trainer::Objective`] for each training
//! method. [`pretrain`] fits a Llama from scratch. [`config`] has the config files, [`evaluation`] the numbers that
//! are measured. [`process_group`] is about several devices and can be skipped.

pub mod checkpoint;
pub mod config;
pub mod error;
pub mod evaluation;
pub mod head_step;
pub mod llama;
pub mod lora;
pub mod methods;
pub mod micro_batch;
pub mod optimizer;
pub mod parameters;
pub mod pretrain;
pub mod process_group;
pub mod schedule;
pub mod t5;
pub mod trainer;
