//! Hidden states of the frozen backbone: computed when they are needed, or read from a cache on disk.

use super::feature_cache::FeatureCache;
use super::hidden_states::{hidden_states, hidden_states_of};
use crate::error::TrainError;
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_data::shard::Row;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use std::sync::Arc;

/// The source of hidden states.
pub struct Features {
    /// The backbone.
    pub decoder: Arc<Decoder>,
    /// A cache of states, if there is one.
    pub cache: Option<FeatureCache>,
}

impl Features {
    /// The states after the final norm at some positions of a conversation. Each conversation is read alone, so no
    /// other one can reach it.
    ///
    /// # Shapes
    /// `[positions, d]`, in `f32`.
    ///
    /// # Errors
    /// When the backbone fails or the cache cannot be read.
    pub fn states(
        &self,
        row: &Row,
        held_out: bool,
        index: usize,
        positions: &[usize],
    ) -> Result<Tensor<2>, TrainError> {
        self.hooked(row, held_out, index, positions, &Hooks::none())
    }

    /// As [`Self::states`], with the hooked states in front of them, side by side.
    ///
    /// # Shapes
    /// `[positions, (hooks + 1) · d]`, in `f32`.
    ///
    /// # Errors
    /// As of [`Self::states`].
    pub fn hooked(
        &self,
        row: &Row,
        held_out: bool,
        index: usize,
        positions: &[usize],
        hooks: &Hooks,
    ) -> Result<Tensor<2>, TrainError> {
        match &self.cache {
            Some(cache) if cache.hooks() != hooks => {
                let (has, requested) = (cache.hooks().layers(), hooks.layers());
                Err(TrainError::Data(format!("the states on disk are of layers {has:?}, not {requested:?}")))
            }
            Some(cache) => cache.states(held_out, index, self.decoder.compute().device()),
            None => self.compute(&row.example.ids, positions, hooks),
        }
    }

    /// [`Self::states`] of several conversations with their indices and positions.
    ///
    /// # Errors
    /// As of [`Self::states`].
    pub fn states_of(&self, conversations: &[(&Row, bool, usize, Vec<usize>)]) -> Result<Vec<Tensor<2>>, TrainError> {
        if self.cache.is_some() {
            let read = |(row, held_out, index, positions): &(&Row, _, _, Vec<_>)| {
                self.states(row, *held_out, *index, positions)
            };
            return conversations.iter().map(read).collect();
        }
        let wanted = conversations.iter().map(|(row, _, _, positions)| (&row.example.ids[..], &positions[..]));
        self.compute_all(&wanted.collect::<Vec<_>>())
    }

    /// Values of a state.
    pub fn width(&self) -> usize {
        self.decoder.config().hidden_size
    }

    /// As [`Self::hooked`], for any tokens.
    ///
    /// # Errors
    /// When the backbone fails.
    pub(crate) fn compute(&self, ids: &[Token], positions: &[usize], hooks: &Hooks) -> Result<Tensor<2>, TrainError> {
        hidden_states(&self.decoder, ids, positions, hooks)
    }

    /// As [`Self::states_of`], for any tokens.
    ///
    /// # Errors
    /// When the backbone fails.
    pub(crate) fn compute_all(&self, wanted: &[(&[Token], &[usize])]) -> Result<Vec<Tensor<2>>, TrainError> {
        hidden_states_of(&self.decoder, wanted, &Hooks::none())
    }
}
