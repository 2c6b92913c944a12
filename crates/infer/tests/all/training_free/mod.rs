//! Drafters without weights of their own, on every architecture: no draft changes greedy text, sampled text keeps its
//! distribution, and rejected drafts leave no trace.

mod auto;
mod by_hand;
mod early_exit;
mod every_method;
pub mod kangaroo;
pub mod kinds;
mod law;
mod lookahead;
mod one_token;
mod searched;
mod skipped;
mod suffix;
mod swift;
mod threshold;
