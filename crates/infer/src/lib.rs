//! The decode loop. It speaks token ids only: text belongs to whoever calls it.

pub mod batch;
pub mod event;
pub mod plain;

pub use event::{Event, Finish, Generation};
pub use plain::{DecodeError, Limits, decode};
