//! The attention of a draft layer that is unrolled over its own outputs in training (EAGLE-3's training-time test).
//!
//! Step 0 is causal attention within segments ([`crate::segment_attention`]). In step `i` the row at position `t`
//! stands for a token drafted `i` places further on: its query is rotated to position `t + i`, and it sees the rows of
//! step 0 up to `t`, which are the committed tokens, and of each step `j` from 1 to `i` the row at its own `t`, rotated
//! to `t + j`, which are the tokens drafted before it. Other rows of later steps belong to other drafts.

mod kernel;
mod launch;
pub mod reference;

pub use launch::unrolled_attention;
