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
    /// A pass that contradicts itself or the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nothing to run on.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
}
