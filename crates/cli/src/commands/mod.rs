//! One module per verb.

pub mod bench;
pub mod chat;
pub mod compare;
mod contest;
pub mod convert;
pub mod demo;
pub mod distill;
pub mod doctor;
pub mod export;
pub mod fetch;
pub mod generate;
pub mod inspect;
pub mod logits;
pub mod plan;
pub mod pretrain;
mod resume;
pub mod suite;
pub mod sweep;
pub mod synth;
pub mod train;
pub mod tree;
pub mod verify;
