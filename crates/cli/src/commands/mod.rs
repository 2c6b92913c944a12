//! One module per verb.

pub mod demo;
pub mod doctor;
pub mod fetch;
pub mod generate;
pub mod inspect;
mod load;
pub mod logits;
