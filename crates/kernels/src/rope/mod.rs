//! Rotary position embedding.

mod kernel;
mod launch;
pub mod reference;

pub use kernel::rotate_heads;
pub use launch::rotate;
