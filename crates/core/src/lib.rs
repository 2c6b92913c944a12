//! The mathematics of speculative decoding, over plain slices.
//!
//! Three things vary independently and are named separately everywhere:
//!
//! * a **drafter** proposes tokens (its tensors live in other crates; here it is a [`tree::CandidateSource`]);
//! * a **tree** ([`tree::TokenTree`], grown by a [`tree::TreeBuilder`]) arranges the proposals;
//! * an **acceptance rule** ([`accept::AcceptanceRule`]) picks one path and a bonus token.
//!
//! Nothing here knows tensors, files, clocks or threads (but for [`recycled`] memory), and all chance goes through
//! [`accept::Draws`], so tests can enumerate every outcome and compare output laws exactly.

pub mod accept;
pub mod dist;
pub mod recycled;
pub mod stats;
pub mod token;
pub mod tree;

pub use recycled::Recycled;
pub use token::Token;
