//! Kangaroo (Liu et al., 2024, <https://arxiv.org/abs/2404.18911>): the target's first `E` layers and a small adapter
//! draft, and drafting stops after a draft that the adapter is unsure of.
//!
//! With `h` the target's residual stream in front of layer `E`, `f = N(h + Attn(N_a(h)))` and `q = softmax(LM(f))`: one
//! attention with a cache of its own, two RMS norms, no feed-forward network, the target's LM head. A path ends after a
//! draft with `max q < η`; that draft is kept, so whether a position is drafted is decided
//! before its token is. Drafts are a list of most likely tokens.
//!
//! The target's rows of layers below `E` are computed once: verification resumes at layer `E` from the states that were
//! drafted with ([`crate::early_exit`]). The adapter's rows of drafts are dropped after each tree; what is committed is
//! read from the target's hidden states, so a step that accepts every draft leaves no gap.

mod config;
mod export;
mod loss;
mod model;
mod propose;

pub use config::{KangarooConfig, KangarooShape};
pub use export::export;
pub use loss::{KangarooBatch, KangarooNetwork, KangarooOutput};
pub use model::KangarooModel;
pub use propose::KangarooDrafter;
