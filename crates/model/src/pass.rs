//! One forward pass as data: what is read, which rows see each other, and which layers run.

mod check;
mod skipped;

use crate::hidden_states::HiddenStates;
use gorgon_core::Token;
use gorgon_kernels::tree_attention::AttentionMask;
use smallvec::SmallVec;
use std::ops::Range;

pub(crate) use check::Bounds;
pub use check::PlanError;
/// One row's input: a token's embedding, or a row of the table of [`Inputs::Rows`].
pub use gorgon_core::tree::NodeInput as Input;
pub use skipped::SkippedSublayers;

/// Content of a pass's rows when they enter its first layer.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Embeddings of tokens.
    Tokens(&'a [Token]),
    /// Embeddings of tokens, and rows of a table of embeddings (the probes of parallel prompt decoding). The table's
    /// rows enter the first layer as they are: a model's factor on its embeddings is not applied to them.
    Rows {
        /// One per row of the pass.
        rows: &'a [Input],
        /// `[embeddings, d]`.
        table: &'a HiddenStates,
    },
    /// Hidden states `[rows, d]` in front of the pass's first layer: the stream that an earlier pass left there
    /// ([`PassOutput::stream`]), or embeddings from elsewhere.
    States(&'a HiddenStates),
}

/// One sequence's rows in a forward pass.
///
/// The rows follow the committed ones in the sequence's cache and stay uncommitted until a path of them is kept. Trees,
/// look-ahead windows, probes and blocks are all passes with another mask.
#[derive(Clone, Debug)]
pub struct PassPlan<'a> {
    /// Content of the rows.
    pub inputs: Inputs<'a>,
    /// Which uncommitted rows each row sees; all see the committed ones.
    pub mask: &'a AttentionMask,
    /// Positions of the rows, counted from the first position after the committed rows. `None`: one less than the
    /// number of uncommitted rows that a row sees, which is a node's depth in a tree.
    pub positions: Option<&'a [usize]>,
    /// The layers that run, all of them where it is `None`. A pass that starts after layer 0 resumes: its rows are
    /// uncommitted rows of the cache that have run the layers before, and it writes keys and values of its layers only.
    pub layers: Option<Range<usize>>,
    /// Sub-layers that are left out. Rows of such a pass have no keys and values of the attentions left out, so they
    /// can be seen by passes that leave out the same ones, and cannot be committed.
    pub skipped: Option<&'a SkippedSublayers>,
}

impl<'a> PassPlan<'a> {
    /// A pass of tokens through all layers.
    pub fn of_tokens(tokens: &'a [Token], mask: &'a AttentionMask) -> Self {
        Self { inputs: Inputs::Tokens(tokens), mask, positions: None, layers: None, skipped: None }
    }
}

impl Inputs<'_> {
    /// The tokens of the rows, where all rows are tokens.
    pub(crate) fn tokens(&self) -> &[Token] {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Rows { .. } | Self::States(_) => &[],
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Rows { rows, .. } => rows.len(),
            Self::States(states) => states.rows(),
        }
    }
}

/// The hidden states of hooked layers; a few need no memory of their own.
pub type HookedStates = SmallVec<[HiddenStates; 4]>;

/// Result of a forward pass.
#[derive(Debug)]
pub struct PassOutput {
    /// Hidden states after the final norm, one row per row of the pass: the LM head reads these. In a pass that ends
    /// before the last layer they are what an early exit reads.
    pub hidden: HiddenStates,
    /// The hooked states, one row per row of the pass, in the order in which they were requested.
    pub hooks: HookedStates,
    /// The residual stream after the last layer of a pass that ends before the model's last one: a later pass
    /// resumes from it ([`Inputs::States`]).
    pub stream: Option<HiddenStates>,
}
