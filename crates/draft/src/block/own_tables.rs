//! A block drafter's own embedding and LM head. speculators stores them: the target's, the LM head for the tokens that
//! can be drafted.

use crate::eagle::embedded;
use crate::eagle::three::{DraftVocabulary, stored_vocabulary};
use crate::folder::{HeadsError, HeadsFolder};
use crate::format::BlockSpec;
use gorgon_core::{PooledVec, Token};
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::embedding::Embedding;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::linear::{Linear, Loader};

/// Tables of a drafter's own; the target's serve where there are none.
#[derive(Debug)]
pub(super) struct OwnTables {
    embedding: Option<Embedding>,
    lm_head: Option<OwnHead>,
}

#[derive(Debug)]
struct OwnHead {
    linear: Linear,
    vocabulary: DraftVocabulary,
}

impl OwnTables {
    /// Loads the tables of a folder for a target's vocabulary.
    ///
    /// # Errors
    /// When a table cannot be read, or `d2t` names tokens that there are not.
    pub fn load(
        folder: &HeadsFolder,
        spec: &BlockSpec,
        loader: &Loader<'_>,
        vocab_size: usize,
    ) -> Result<Self, HeadsError> {
        let embedding = match spec.own_embedding {
            true => Some(Embedding::new(loader.weight(&["embed_tokens.weight".to_owned()])?, 1.0)),
            false => None,
        };
        let lm_head = match spec.draft_vocab_size {
            Some(_) => Some(OwnHead {
                linear: loader.linear(&["lm_head".to_owned()], false)?,
                vocabulary: stored_vocabulary(folder, (spec.draft_vocab_size, spec.vocab_map), vocab_size)?,
            }),
            None => None,
        };
        Ok(Self { embedding, lm_head })
    }

    /// The embeddings of tokens.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn embed(&self, decoder: &Decoder, tokens: &[Token]) -> Result<HiddenStates, ModelError> {
        embedded(decoder, self.embedding.as_ref(), tokens)
    }

    /// The top `widths[i]` tokens after state `i`, if they can be found without all logits.
    pub fn top_tokens(
        &self,
        decoder: &Decoder,
        states: &HiddenStates,
        widths: &[usize],
    ) -> Option<PooledVec<(Token, f32)>> {
        if self.lm_head.is_some() { None } else { decoder.top_tokens(states, widths) }
    }

    /// Logits of the target's whole vocabulary; tokens that cannot be drafted have `-∞`.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn logits(&self, decoder: &Decoder, states: &HiddenStates) -> PooledVec<f32> {
        let Some(own) = &self.lm_head else { return decoder.draft_logits(states) };
        let drafted = own.linear.forward(states).into_values();
        if own.vocabulary.is_whole() {
            return drafted;
        }
        let vocab_size = decoder.config().vocab_size;
        let mut all = PooledVec::of(f32::NEG_INFINITY, states.rows() * vocab_size);
        for (row, drafted) in all.chunks_exact_mut(vocab_size).zip(drafted.chunks_exact(own.vocabulary.len())) {
            own.vocabulary.tokens().iter().zip(drafted).for_each(|(&token, &logit)| row[token as usize] = logit);
        }
        all
    }
}
