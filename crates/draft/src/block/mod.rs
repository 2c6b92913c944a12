//! Block drafters (DFlash, arXiv 2602.06036): all tokens of a draft in one parallel pass.
//!
//! Every committed token `t` has a context feature `c_t = N(W [h^1_t; …; h^m_t])` of the backbone's residual stream at
//! `m` depths ([`gorgon_model::hooks::Hooks`]), the same for all layers. A block stands at the last emitted token, the
//! anchor `a`, which has no hidden states yet: slot 0 holds its embedding, slots `1..B` that of a mask token. A layer is
//! a Qwen 3 decoder layer in which slot `i`, at position `a + i`, attends to the context `t < a` and to the slots of its
//! block; one pair of projections makes the keys and values of both, and only slots pass the norm in front of the
//! attention. `softmax(LM(N(x_i)))` guesses the token at `a + i`. Embedding and LM head are the backbone's.
//!
//! Slots see all slots of their block (DFlash) or those up to themselves (`causal`, as JetSpec has it), and all of the
//! context or a sliding window.
//!
//! DFlash 2 adds two parts that start as nothing: a convolution along the slots around attention and feed-forward network
//! of each layer, and a selector that scores neighbouring tokens in pairs, so that what follows a node depends on its
//! token.
//!
//! The keys and values of the context stay in a cache for each layer; those of slots are dropped after each draft.

mod config;
mod convolution;
mod export;
mod loss;
mod model;
mod network;
mod own_tables;
mod propose;
mod selector;
mod selector_loss;

pub use config::{BlockConfig, BlockShape, SlotWeights};
pub use export::{Layout, check_export, export};
pub use loss::{BlockBatch, BlockOutput, Criterion, losses, slot_weights};
pub use model::BlockModel;
pub use network::BlockNetwork;
pub use propose::BlockDrafter;
pub use selector::SelectorConfig;
