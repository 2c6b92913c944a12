//! A source as the decoder of an encoder-decoder model reads it.

use crate::hidden_states::HiddenStates;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::HostKv;

/// A source that was read: every row of the decoder sees all of it.
#[derive(Clone, Debug)]
pub struct EncodedSource {
    /// Its tokens.
    tokens: PooledVec<Token>,
    /// The encoder's states after its final norm, `[tokens, d]`.
    states: HiddenStates,
    /// Keys and values of the states in every layer of the decoder.
    layers: Vec<HostKv>,
}

impl EncodedSource {
    /// A source with the encoder's states, and what the decoder's layers made of them.
    pub(crate) fn new(tokens: &[Token], states: HiddenStates, layers: Vec<HostKv>) -> Self {
        Self { tokens: tokens.into(), states, layers }
    }

    /// The source's tokens.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The encoder's states after its final norm.
    ///
    /// # Shapes
    /// `[tokens, d]`.
    pub fn states(&self) -> &HiddenStates {
        &self.states
    }

    /// Keys and values in a layer of the decoder.
    pub(crate) fn layer(&self, layer: usize) -> &HostKv {
        &self.layers[layer]
    }
}
