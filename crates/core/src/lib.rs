//! The mathematics of speculative decoding, over plain slices.
//!
//! Three things vary independently and are named separately everywhere:
//!
//! * a **drafter** proposes tokens (its tensors live in other crates; here it is a [`tree::CandidateSource`]);
//! * a **tree** ([`tree::TokenTree`], grown by a [`tree::TreeBuilder`]) arranges the proposals;
//! * an **acceptance rule** ([`accept::AcceptanceRule`]) picks one path and a bonus token.
//!
//! Nothing here knows tensors, files, clocks or threads (but for [`pooled_vec`] memory). All randomness goes through
//! [`accept::RandomSource`], so tests can enumerate every outcome and compare output distributions exactly.

pub mod accept;
pub mod dist;
pub mod mean_speed;
pub mod pooled_vec;
pub mod stats;
pub mod suggest;
pub mod token;
pub mod tree;

pub use pooled_vec::PooledVec;
pub use token::Token;
