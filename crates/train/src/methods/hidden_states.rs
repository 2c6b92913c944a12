//! Forward passes of the frozen backbone over conversations.

use crate::error::TrainError;
use burn::tensor::{DType, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{Decoder, ModelError, Rows};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{HookedStates, PassOutput, PassPlan};

/// Tokens per forward pass of a long conversation on the CPU.
const CHUNK: usize = 512;
/// Tokens per forward pass on a GPU, of one conversation or of several.
const DEVICE_CHUNK: usize = 4096;
/// Conversations per forward pass on a GPU: as many as attention takes in one launch.
const CONVERSATIONS: usize = 8;

/// A conversation's tokens, and the positions whose states are wanted.
pub(super) type Wanted<'a> = (&'a [Token], &'a [usize]);

/// The states of several conversations, as of [`hidden_states`]. A GPU reads them together, each into a cache of its own,
/// so no other one can reach it.
///
/// # Errors
/// When the backbone fails.
pub(super) fn hidden_states_of(
    decoder: &Decoder,
    mut wanted: &[Wanted<'_>],
    hooks: &Hooks,
) -> Result<Vec<Tensor<2>>, TrainError> {
    let mut states = vec![];
    while let [(ids, positions), ..] = wanted {
        let mut tokens = 0;
        let fits = |(_, positions): &&Wanted<'_>| {
            tokens += length(positions);
            tokens <= DEVICE_CHUNK
        };
        let count = wanted.iter().take(CONVERSATIONS).take_while(fits).count();
        let together;
        (together, wanted) = wanted.split_at(if decoder.compute().is_host() { 1 } else { count.max(1) });
        match together {
            [_] => states.push(hidden_states(decoder, ids, positions, hooks)?),
            _ => states.extend(read_together(decoder, together, hooks)?),
        }
    }
    Ok(states)
}

/// Tokens up to the last position.
fn length(positions: &[usize]) -> usize {
    positions.iter().max().map_or(0, |last| last + 1)
}

/// The states of conversations that are read in one pass.
fn read_together(decoder: &Decoder, wanted: &[Wanted<'_>], hooks: &Hooks) -> Result<Vec<Tensor<2>>, TrainError> {
    let wanted: Vec<Wanted<'_>> = wanted.iter().map(|(ids, at)| (&ids[..length(at)], *at)).collect();
    let masks: Vec<_> = wanted.iter().map(|(ids, _)| AttentionMask::Causal { rows: ids.len() }).collect();
    let mut caches: Vec<KvCache> = wanted.iter().map(|(ids, _)| decoder.new_cache(ids.len())).collect();
    let mut rows = vec![];
    for ((cache, mask), (ids, _)) in caches.iter_mut().zip(&masks).zip(&wanted) {
        cache.reserve(ids.len()).map_err(failed)?;
        rows.push(Rows { plan: PassPlan::of_tokens(ids, mask), cache });
    }
    let all = columns(decoder.forward_batch(&mut rows, hooks).map_err(failed)?);
    let mut start = 0;
    let mut of = |&(ids, positions): &Wanted<'_>| {
        let states = all.clone().narrow(1, start, ids.len());
        start += ids.len();
        select(states, positions)
    };
    Ok(wanted.iter().map(&mut of).collect())
}

/// An error of the backbone or its cache.
fn failed(error: impl Into<ModelError>) -> TrainError {
    TrainError::Data(error.into().to_string())
}

/// Hooked states and those after the final norm, side by side.
fn columns(output: PassOutput) -> Tensor<3> {
    let all: HookedStates = output.hooks.into_iter().chain([output.hidden]).collect();
    HiddenStates::concat_columns(&all).into_tensor()
}

/// Rows of `states [1, rows, width]`, in `f32`.
fn select(states: Tensor<3>, positions: &[usize]) -> Tensor<2> {
    let index: Vec<i32> = positions.iter().map(|&t| t as i32).collect();
    let n = index.len();
    let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &states.device());
    let [_, rows, d] = states.dims();
    states.reshape([rows, d]).select(0, index).cast(DType::F32)
}

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
    let last = length(positions);
    let mut cache = decoder.new_cache(last);
    let mut parts = vec![];
    for chunk in ids[..last].chunks(if decoder.compute().is_host() { CHUNK } else { DEVICE_CHUNK }) {
        cache.reserve(chunk.len()).map_err(failed)?;
        let visible = AttentionMask::Causal { rows: chunk.len() };
        let output = decoder.forward(&PassPlan::of_tokens(chunk, &visible), &mut cache, hooks).map_err(failed)?;
        let all: Vec<usize> = (0..chunk.len()).collect();
        cache.commit(&all).map_err(failed)?;
        parts.push(columns(output));
    }
    Ok(select(if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) }, positions))
}
