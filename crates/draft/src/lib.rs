//! Drafters.
//!
//! [`format`](mod@format) recognises, from tensor names and shapes alone, in which of the published formats a set of
//! draft heads is stored, and lists everything that would make it load wrongly.

pub mod block;
mod by_depth;
pub mod calibrated;
pub mod choice;
pub mod composed;
pub mod corrections;
pub mod coupled;
mod d_pace;
pub mod draft_model;
pub mod drafter;
pub mod eagle;
pub mod early_exit;
pub mod fallback;
mod feature_tokens;
pub mod fitting;
pub mod folder;
pub mod format;
mod growth;
pub mod handover;
pub mod hydra;
pub mod jacobi;
pub mod kangaroo;
pub mod layer;
mod ledger;
mod levels;
pub mod lookahead;
pub mod measured;
pub mod medusa;
pub mod method;
pub mod mtp;
pub mod ngram;
pub mod ngram_table;
pub mod oracle;
mod own_layers;
pub mod parameter;
pub mod partial;
pub mod pipelined;
pub mod probes;
pub mod published;
pub mod pytorch;
pub mod recycle;
mod refill;
mod residual;
pub mod rest;
pub mod settings;
pub mod skip;
pub mod specinfer;
mod speculators;
pub mod step_costs;
mod stop_after;
pub mod store;
pub mod suffix;
pub mod swift;
#[cfg(test)]
mod toy;
pub mod trace;
pub mod training_free;
mod uncommitted;
mod watched;
