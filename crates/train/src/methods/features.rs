//! Hidden states of the frozen backbone: computed in process, and kept on disk if asked to.

use super::feature_cache::FeatureCache;
use crate::error::TrainError;
use burn::tensor::{DType, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_data::shard::Row;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::{Decoder, HookedStates};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use std::sync::Arc;

/// Tokens per forward pass of a long conversation.
const CHUNK: usize = 512;

/// Where hidden states come from.
pub struct Features {
    /// The backbone.
    pub decoder: Arc<Decoder>,
    /// States that were computed before.
    pub cache: Option<FeatureCache>,
}

impl Features {
    /// The states after the final norm at some positions of a conversation, which is read alone: nothing of another one
    /// can reach it.
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

    /// The same with tapped states in front of them, side by side.
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
                let (has, asked) = (cache.hooks().layers(), hooks.layers());
                Err(TrainError::Data(format!("the states on disk have taps {has:?}, not {asked:?}")))
            }
            Some(cache) => cache.states(held_out, index, self),
            None => self.compute(&row.example.ids, positions, hooks),
        }
    }

    /// Values of a state.
    pub fn width(&self) -> usize {
        self.decoder.config().hidden_size
    }

    /// As [`Self::hooked`], of any tokens.
    pub(crate) fn compute(&self, ids: &[Token], positions: &[usize], hooks: &Hooks) -> Result<Tensor<2>, TrainError> {
        let failed = |error: gorgon_model::decoder::ModelError| TrainError::Data(error.to_string());
        let last = positions.iter().max().map_or(0, |last| last + 1);
        let mut cache = self.decoder.new_cache(last);
        let mut parts = vec![];
        for chunk in ids[..last].chunks(CHUNK) {
            cache.reserve(chunk.len()).map_err(|error| TrainError::Data(error.to_string()))?;
            let visible = AttentionMask::Causal { rows: chunk.len() };
            let output = self.decoder.forward(chunk, &visible, &mut cache, hooks).map_err(failed)?;
            let all: Vec<usize> = (0..chunk.len()).collect();
            cache.commit(&all).map_err(|error| TrainError::Data(error.to_string()))?;
            let all: HookedStates = output.hooks.into_iter().chain([output.hidden]).collect();
            parts.push(HiddenStates::concat_columns(&all).into_tensor());
        }
        let hidden = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) };
        let index: Vec<i32> = positions.iter().map(|&t| t as i32).collect();
        let n = index.len();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &hidden.device());
        let [_, rows, d] = hidden.dims();
        Ok(hidden.reshape([rows, d]).select(0, index).cast(DType::F32))
    }
}
