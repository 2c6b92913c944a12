//! One module per verb.

pub mod bench;
pub mod chat;
pub mod compare;
mod contest;
pub mod convert;
pub mod demo;
pub mod distill;
mod distill_preview;
mod distill_progress;
pub mod doctor;
pub mod drafting;
pub mod export;
pub mod fetch;
pub mod generate;
pub mod inspect;
mod load;
pub mod logits;
pub mod plan;
pub mod pretrain;
mod pretrain_data;
mod prompts;
mod suite;
mod sweep;
pub mod synth;
pub mod train;
pub mod tree;
pub mod verify;
