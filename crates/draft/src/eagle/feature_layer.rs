//! Interface of a draft layer in feature space, of any generation.

use crate::drafter::{DraftError, Needs};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::PassOutput;

/// A network that reads pairs of a state and the token after it, and guesses the next state: EAGLE-1's layer or
/// EAGLE-3's.
pub trait FeatureLayer: Send + Sync {
    /// Requirements on the target's passes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The states of some rows of a target's pass, as pairs are made of them.
    ///
    /// # Errors
    /// When the pass did not hand out what [`Self::needs`] names.
    fn states(&self, output: &PassOutput, rows: &[usize]) -> Result<HiddenStates, DraftError>;

    /// An empty cache with room for `capacity` pairs; it is given more as it needs it.
    fn new_cache(&self, capacity: usize) -> KvCache;

    /// The states guessed from some pairs, whose keys and values stay uncommitted in `cache`.
    ///
    /// # Shapes
    /// One of `tokens` for each of `states`; result the same.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or rows are uncommitted that `visible` does not count.
    fn forward(
        &self,
        tokens: &[Token],
        states: &HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError>;

    /// Logits over the tokens that can be drafted after some guessed states.
    ///
    /// # Shapes
    /// Result `[rows · D]`, row-major.
    fn logits(&self, states: &HiddenStates) -> PooledVec<f32>;

    /// The tokens behind the columns of those logits.
    fn columns(&self) -> Columns<'_>;

    /// The `widths[i]` tokens with the greatest logits after guessed state `i`, greatest first, if they can be found
    /// without all logits.
    ///
    /// # Shapes
    /// `widths [rows]`.
    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>>;
}

/// The tokens behind a draft layer's columns of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns<'a> {
    /// Column `i` is token `i`, of a vocabulary of this size.
    All(usize),
    /// Column `i` is the `i`-th of these.
    Named(&'a [Token]),
}

impl Columns<'_> {
    /// Number of columns, D.
    pub fn len(&self) -> usize {
        match self {
            Self::All(vocab) => *vocab,
            Self::Named(tokens) => tokens.len(),
        }
    }

    /// True if nothing can be drafted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token of a column.
    pub fn token(&self, column: u32) -> Token {
        match self {
            Self::All(_) => column,
            Self::Named(tokens) => tokens[column as usize],
        }
    }
}
