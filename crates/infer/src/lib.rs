//! The decode loop. It speaks token ids only: text belongs to whoever calls it.
//!
//! [`step`] is one step on one page: draft, verify, accept, commit. [`session`] runs steps to the end of an answer,
//! [`plain`] is decoding without a drafter, [`batch`] several sequences at once, and [`recorded`] a step that a GPU
//! takes without the host.

pub mod batch;
pub mod event;
pub mod plain;
pub mod recorded;
pub mod session;
pub mod step;
pub mod timing;

pub use event::{Event, Finish, Generation};
pub use plain::{DecodeError, Limits, decode};
pub use recorded::{Recorded, RecordedPair, StepCounts};
pub use session::decode_with;
pub use step::{StepOutcome, Stepper};
pub use timing::StepTimes;
