//! A forward pass of the frozen backbone over one conversation.

use crate::error::TrainError;
use burn::tensor::{DType, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{HookedStates, PassPlan};

/// Tokens per forward pass of a long conversation.
const CHUNK: usize = 512;

/// Hooked states and those after the final norm, side by side, at some positions of a conversation.
///
/// # Shapes
/// `[positions, (hooks + 1) · d]`, in `f32`.
///
/// # Errors
/// When the backbone fails.
pub(super) fn hidden_states(
    decoder: &Decoder,
    ids: &[Token],
    positions: &[usize],
    hooks: &Hooks,
) -> Result<Tensor<2>, TrainError> {
    let failed = |error: gorgon_model::decoder::ModelError| TrainError::Data(error.to_string());
    let last = positions.iter().max().map_or(0, |last| last + 1);
    let mut cache = decoder.new_cache(last);
    let mut parts = vec![];
    for chunk in ids[..last].chunks(CHUNK) {
        cache.reserve(chunk.len()).map_err(|error| TrainError::Data(error.to_string()))?;
        let visible = AttentionMask::Causal { rows: chunk.len() };
        let output = decoder.forward(&PassPlan::of_tokens(chunk, &visible), &mut cache, hooks).map_err(failed)?;
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
