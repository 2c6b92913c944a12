//! The decode loop. It speaks token ids only: text belongs to its callers.
//!
//! * [`session`]: a sequence with its target and its drafter, which lives across turns.
//! * [`step`](mod@step): one step on a page: draft, verify, accept, commit. `verdict.rs` has the accepting.
//! * [`cascade`]: a drafter that takes such steps with a draft model; [`ouroboros`] does with phrases behind its drafts,
//!   [`triforce`] with the target over a part of its cache.
//! * [`generate`]: the one loop, for one sequence and for several ([`batch`]), plain and drafted, launched and
//!   [`recorded`].

pub mod batch;
pub mod cascade;
pub mod error;
mod executor;
pub mod generate;
mod launched;
pub mod ouroboros;
pub mod pace;
mod plain_step;
pub mod recorded;
pub mod request;
pub mod session;
pub mod step;
pub mod timing;
pub mod triforce;
pub mod turn;
mod verdict;

pub use batch::{Batch, Drafts};
pub use error::DecodeError;
pub use generate::{Feed, decode};
pub use pace::Pace;
pub use recorded::{Recorded, RecordedPair, StepCounts};
pub use request::{Event, Finish, Generation, Limits, Request};
pub use session::{Method, Session};
pub use timing::StepTimes;
pub use turn::{StepOutcome, Turn};
