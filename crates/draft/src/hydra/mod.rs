//! Hydra heads (Ankner et al., 2024): Medusa heads that know the tokens drafted before them.
//!
//! Head `k = 1..K` reads `[h_t; E(x_{t+1}); …; E(x_{t+k})]`, the backbone's state at the last committed token and the
//! embeddings of the tokens on its own path, the first of which is the root; it guesses `x_{t+k+1}`. A head is a stack
//! of residual blocks: the first maps `z` of width `(k + 1) d` to `R z + c + SiLU(W z + b)`, the others `h` to
//! `h + SiLU(W h + b)`; the backbone's LM head makes logits of the last one's output.
//!
//! Hydra++: more blocks, a decoder layer over the states of all committed tokens whose normed output stands in for
//! `h_t` (prefix attention), and a loss against the backbone's distribution instead of the text's tokens.

mod config;
mod export;
mod loss;
mod model;
mod propose;

pub use config::{HydraConfig, HydraShape};
pub use export::export;
pub use loss::HydraHeads;
pub use model::HydraModel;
pub use propose::HydraDrafter;
