//! Drafters.
//!
//! [`format`](mod@format) recognises, from tensor names and shapes alone, in which of the published formats a set of
//! draft heads is stored, and lists everything that would make it load wrongly.

pub mod drafter;
pub mod eagle;
pub mod fallback;
pub mod folder;
pub mod format;
mod in_flight;
pub mod medusa;
pub mod ngram;
pub mod oracle;
mod published;
pub mod small_model;
