//! One module per verb.

pub mod demo;
pub mod distill;
mod distill_preview;
pub mod doctor;
pub mod drafting;
pub mod fetch;
pub mod generate;
pub mod inspect;
mod load;
pub mod logits;
pub mod pretrain;
mod pretrain_data;
pub mod synth;
pub mod train;
