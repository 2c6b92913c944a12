//! Why a model cannot be loaded or run.

use crate::cache::CacheError;
use crate::config::ConfigError;
use crate::pass::PlanError;
use crate::weights::WeightsError;
use gorgon_core::Token;

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The config.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A token that the model does not have.
    #[error("token {token} is outside the vocabulary of {vocab_size}")]
    Token {
        /// The offending token.
        token: Token,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// More devices than there are layers for.
    #[error("{devices} devices share the model's {layers} layers: each of them holds at least one")]
    Split {
        /// Devices.
        devices: usize,
        /// Layers.
        layers: usize,
    },
    /// A pass that contradicts itself or the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An encoder elsewhere than on the CPU.
    #[error("encoder-decoder models run on the CPU only, not on {0}: use --device cpu")]
    EncoderDevice(String),
    /// A decoder that is run before it has a source.
    #[error("an encoder-decoder model reads a source before its text, and this one has read none")]
    NoSource,
    /// A source for a model that reads none.
    #[error("the model has no encoder, and reads no source beside its text")]
    NoEncoder,
    /// Nothing to run on.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
}
