//! The target: a model with one sequence's cache, seen by the decode loop.

mod borrowed;
mod decoder_target;

use crate::cache::RetrievedCache;
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::pass::{PassOutput, PassPlan};
use gorgon_core::{PooledVec, Token};

pub use crate::hidden_states::read;
pub use decoder_target::DecoderTarget;

/// Prompt tokens per forward pass: bounds the memory of a long prompt.
pub const PREFILL_CHUNK: usize = 256;

/// A model whose text is decoded: it reads a sequence, verifies drafts after it and keeps an accepted path of them.
///
/// A sequence is the committed tokens. Rows of passes over drafts stay uncommitted until [`commit`](Self::commit) or
/// [`roll_back`](Self::roll_back).
pub trait Target: Send {
    /// Committed tokens.
    fn len(&self) -> usize;

    /// True before the first committed token.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that can be committed in all: the model's context, or less if that was requested.
    fn context(&self) -> usize;

    /// Layers of the model.
    fn layers(&self) -> usize;

    /// Size of the vocabulary.
    fn vocab_size(&self) -> usize;

    /// Whether the model runs on the CPU, where a row's results do not depend on the rows beside it.
    fn is_host(&self) -> bool;

    /// Fails if tokens do not fit after the committed ones or one is outside the vocabulary, before anything is read.
    ///
    /// # Errors
    /// The offending token, or how many tokens there are and fit.
    fn check(&self, tokens: &[Token]) -> Result<(), ModelError>;

    /// Makes room for `rows` more rows at once, uncommitted ones included: a prompt, the new tokens and a tree. Nothing
    /// is copied until they are used up. A step that is recorded on a GPU needs its rows reserved first, because a
    /// cache that grows is a new one.
    fn reserve(&mut self, rows: usize);

    /// Reads tokens after the committed ones and commits them: one pass, so callers read long prompts in chunks of at
    /// most [`PREFILL_CHUNK`].
    ///
    /// # Shapes
    /// The output has one row per token.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary; nothing is committed then.
    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError>;

    /// Whether the model reads a source before its text. A text to be continued is then the source and, behind it, the
    /// token that the model's own text begins with; both count as committed tokens.
    fn has_encoder(&self) -> bool {
        false
    }

    /// Begins anew with a source, which is read whole.
    ///
    /// # Shapes
    /// The output has one row per token: the encoder's states, which no LM head reads.
    ///
    /// # Errors
    /// When the model has no encoder, or the source is empty, does not fit, or holds a token outside the vocabulary.
    fn read_source(&mut self, _tokens: &[Token]) -> Result<PassOutput, ModelError> {
        Err(ModelError::NoEncoder)
    }

    /// Runs a pass whose rows stay uncommitted.
    ///
    /// # Shapes
    /// The output has one row per row of the plan.
    ///
    /// # Errors
    /// When the plan contradicts itself, the model or the uncommitted rows, or a token is outside the vocabulary. The
    /// uncommitted rows are then those before the call.
    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError>;

    /// Verifies several sequences of one model in one pass.
    ///
    /// # Shapes
    /// The output has the rows of all sequences, one sequence after the other.
    ///
    /// # Errors
    /// As of [`verify`](Self::verify); nothing stays uncommitted then.
    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError>
    where
        Self: Sized;

    /// Commits the rows of an accepted path and drops the other uncommitted rows.
    ///
    /// # Errors
    /// When nothing is uncommitted, or the path is no increasing list of uncommitted rows.
    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError>;

    /// Brings a part of the cache up to date with the committed tokens: all of it where nothing was retrieved yet, else
    /// the rows that were committed since.
    ///
    /// # Errors
    /// When the cache is not on the CPU.
    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError>;

    /// Runs a pass over a part of the cache instead of all of it. Its rows stay uncommitted there; the whole cache does
    /// not change.
    ///
    /// # Shapes
    /// The output has one row per row of the plan.
    ///
    /// # Errors
    /// As of [`verify`](Self::verify), or when nothing was retrieved.
    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError>;

    /// Drops the uncommitted rows.
    fn roll_back(&mut self);

    /// Drops committed tokens from `length` on.
    fn truncate(&mut self, length: usize);

    /// Commits tokens that another target of the same model has committed, up to `length`, without reading them. All
    /// committed tokens of this one must be the other's too. False, and nothing changes, where targets cannot do so.
    ///
    /// # Errors
    /// When the tokens do not fit.
    fn copy_rows(&mut self, _other: &Self, _length: usize) -> Result<bool, ModelError>
    where
        Self: Sized,
    {
        Ok(false)
    }

    /// A target of its own that holds a copy of the first `length` committed tokens, without hooks.
    fn fork(&self, length: usize) -> Box<dyn Target>;

    /// Logits of hidden states, on the host: a step's one read from a device.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32>;

    /// The `counts[i]` tokens with the greatest logits of row `i`, greatest first, or `None` where all logits have to
    /// be computed for it.
    ///
    /// # Shapes
    /// `counts [rows]`.
    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>>;
}
