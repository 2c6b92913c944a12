//! A separate draft model (Leviathan et al. 2023; Chen et al. 2023): any smaller backbone with the target's vocabulary.
//!
//! It reads what is committed into a cache of its own and drafts by itself, so it needs nothing of the target's passes.
//! Its distributions go to the acceptance rule with its drafts.

mod model;
mod propose;
mod sampling;
mod window;

pub use model::{DraftModel, DraftModelError};
pub use propose::DraftModelDrafter;
pub use sampling::DraftSampling;
pub use window::StreamingWindow;
