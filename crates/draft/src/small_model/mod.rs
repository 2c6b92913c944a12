//! A separate draft model (Leviathan et al. 2023; Chen et al. 2023): any smaller backbone with the target's vocabulary.
//!
//! It reads what is committed into a cache of its own and drafts by itself, so it needs nothing of the target's passes.
//! Its distributions go to the acceptance rule with its drafts.

mod law;
mod model;
mod propose;

pub use law::DraftLaw;
pub use model::{SmallModel, SmallModelError};
pub use propose::SmallModelDrafter;
