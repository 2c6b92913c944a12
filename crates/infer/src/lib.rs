//! The decode loop. It speaks token ids only: text belongs to whoever calls it.
//!
//! [`step`] is one step on one page: draft, verify, accept, commit. [`session`] runs steps to the end of an answer,
//! [`plain`] is decoding without a drafter, and [`batch`] several sequences at once.

pub mod batch;
pub mod event;
pub mod plain;
pub mod session;
pub mod step;
pub mod timing;

pub use event::{Event, Finish, Generation};
pub use plain::{DecodeError, Limits, decode};
pub use session::decode_with;
pub use step::{StepOutcome, Stepper};
pub use timing::StepTimes;
