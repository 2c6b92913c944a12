//! One module per verb.

pub mod demo;
pub mod doctor;
pub mod fetch;
pub mod generate;
pub mod inspect;
pub mod logits;
mod load;
