//! The backbone: one config-driven decoder that loads Hugging Face checkpoints, yields hidden states of hooked layers and
//! verifies token trees against a cache.

mod attention;
pub mod attention_layer;
pub mod cache;
pub mod config;
mod convolution;
mod cross_attention;
pub mod decoder;
pub mod device;
pub mod embedding;
mod encoder;
pub mod error;
mod feed_forward;
mod fragments;
pub mod hidden_states;
pub mod hooks;
pub mod layer;
pub mod layout;
pub mod linear;
pub mod lm_head;
mod mlp;
mod moe;
pub mod norm;
pub mod pass;
pub mod position_bias;
pub mod prefilter_budget;
pub mod quantisation;
pub mod random;
pub mod rope;
mod rounding;
pub mod source;
pub mod stages;
pub mod target;
pub mod tuning;
pub mod weight_rows;
pub mod weights;
