//! One module per verb.

pub mod bench;
pub mod chat;
mod contest;
pub mod demo;
pub mod distill;
pub mod distill_parts;
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
pub mod synth;
pub mod train;
pub mod tree;
pub mod verify;
