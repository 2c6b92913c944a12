//! Collective boost-tuning (SpecInfer, section 3.2 of <https://arxiv.org/abs/2305.09781>), by tokens: a draft model is
//! fitted where the ones before it fail.

use crate::error::TrainError;
use gorgon_core::Token;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::ops::Range;
use std::sync::Arc;

/// Draft models that were fitted before. A position `t` has the weight `w_t = 1[x_{t+1} is not in the top k of any of
/// them at t]`.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// The models; without one every position has weight 1.
    pub models: Vec<Arc<Decoder>>,
    /// How many of a model's most likely tokens count as predicted.
    pub top_k: usize,
}

impl Earlier {
    /// Those of some positions of a conversation that have weight 1. At most `chunk` rows of logits are in memory.
    ///
    /// # Errors
    /// When a model fails.
    pub(super) fn weighted(
        &self,
        ids: &[Token],
        positions: Vec<usize>,
        chunk: usize,
    ) -> Result<Vec<usize>, TrainError> {
        self.models.iter().try_fold(positions, |left, model| self.unpredicted(model, ids, left, chunk))
    }

    /// Those of some positions, which are increasing, whose next token a model does not predict.
    fn unpredicted(
        &self,
        model: &Arc<Decoder>,
        ids: &[Token],
        positions: Vec<usize>,
        chunk: usize,
    ) -> Result<Vec<usize>, TrainError> {
        let Some(end) = positions.last().map(|last| last + 1) else { return Ok(positions) };
        let failed = |error: ModelError| TrainError::Data(error.to_string());
        let mut target = DecoderTarget::new(model.clone(), end, Hooks::none());
        let hidden = target.prefill(&ids[..end]).map_err(failed)?.hidden;
        let vocab = model.config().vocab_size;
        let mut left = vec![];
        for rows in positions.chunk_by(|a, b| a / chunk == b / chunk) {
            let span: Range<usize> = rows[0]..rows[rows.len() - 1] + 1;
            let logits = model.logits(&hidden.narrow(span.start, span.len()));
            let row = |t: usize| &logits[(t - span.start) * vocab..][..vocab];
            left.extend(rows.iter().filter(|&&t| !self.predicts(row(t), ids[t + 1])));
        }
        Ok(left)
    }

    /// Whether a token is among the top k of a row; among equals, lower ids come first. A logit that is not finite
    /// predicts nothing.
    fn predicts(&self, row: &[f32], token: Token) -> bool {
        let Some(&own) = row.get(token as usize).filter(|logit| logit.is_finite()) else { return false };
        let before = |(id, &logit): (usize, &f32)| logit > own || (logit == own && id < token as usize);
        row.iter().enumerate().filter(|&entry| before(entry)).take(self.top_k).count() < self.top_k
    }
}
