//! A chat: a conversation, the engine that answers, and the commands that change both.
//!
//! The command line reads lines, calls [`Chat`] and renders what it returns.

mod answer;

pub mod command;
pub mod conversation;
mod engine;
pub mod input;
mod options;
pub mod saved;
mod state;

pub use answer::{Answer, Comparison, Piece, Totals};
pub use options::Options;
pub use state::{Chat, Watch};
