//! One module per verb.

pub mod bench;
pub mod chat;
pub mod compare;
pub mod config;
pub mod demo;
pub mod distill;
pub mod doctor;
pub mod export;
pub mod fetch;
pub mod generate;
pub mod init;
pub mod inspect;
pub mod logits;
pub mod pages;
pub mod plan;
pub mod pretrain;
pub mod quantize;
pub mod replay;
mod resume;
pub mod runs;
pub mod skip;
pub mod suite;
pub mod sweep;
pub mod synth;
pub mod train;
pub mod tree;
pub mod verify;
