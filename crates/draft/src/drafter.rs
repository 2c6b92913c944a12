//! The seam between the decode loop and what proposes tokens.

use crate::trace::Trace;
use gorgon_core::accept::{DraftRows, RandomSource, Rows, SamplingScheme};
use gorgon_core::tree::{BuildError, DraftTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_model::decoder::{ModelError, PassOutput};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;

/// Why a drafter failed.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tree.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The target was not asked for what the drafter needs.
    #[error("the drafter reads {wanted} taps, the target hands out {found}")]
    Hooks {
        /// Taps that the drafter needs.
        wanted: usize,
        /// Taps that there are.
        found: usize,
    },
}

/// What a drafter wants from the target's passes beside the state after the final norm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Hidden states of named layers: the target has to be made with them.
    pub hooks: Hooks,
}

/// Tokens that were just committed, with what the target said at them. A drafter never sees any others.
#[derive(Clone, Copy, Debug)]
pub struct Committed<'a> {
    /// The committed tokens, in order.
    pub tokens: &'a [Token],
    /// The pass that computed them.
    pub output: &'a PassOutput,
    /// The row of each token in that pass.
    pub rows: &'a [usize],
}

impl Committed<'_> {
    /// The state after the final norm at the last committed token.
    pub fn last_hidden(&self) -> Option<HiddenStates> {
        self.rows.last().map(|&row| self.output.hidden.part(row, 1))
    }
}

/// A drafted tree with what an acceptance rule has to know of its making.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The tree.
    pub draft: DraftTree,
    /// The drafter's distribution at each node, as logits `[nodes · V]`; `None` if it has none.
    pub rows: Option<PooledVec<f32>>,
    /// How children were taken from it.
    pub law: SamplingScheme,
}

impl Proposal {
    /// A lone root.
    pub fn root(token: Token) -> Self {
        Self { draft: DraftTree::root(token), rows: None, law: SamplingScheme::Deterministic }
    }

    /// For the acceptance rule.
    pub fn draft_rows(&self) -> DraftRows<'_> {
        let nodes = self.draft.tree().len();
        let rows = self.rows.as_deref().map(|data| Rows::Logits { data, vocab: data.len() / nodes });
        DraftRows { rows, law: self.law }
    }
}

/// Proposes token trees.
pub trait Drafter: Send {
    /// Its name, as on the command line.
    fn name(&self) -> &str;

    /// What it wants from the target's passes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Forgets the sequence.
    fn reset(&mut self);

    /// Tokens were committed: those of the prompt at first, then each step's root and accepted drafts.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError>;

    /// A tree on `root`, the last emitted token, which is not committed yet.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError>;

    /// As [`Self::propose`], for drafters whose children may be draws: those come from `random`. This is what a step
    /// asks.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn propose_drawn(
        &mut self,
        root: Token,
        builder: &dyn TreeBuilder,
        _draws: &mut dyn RandomSource,
    ) -> Result<Proposal, DraftError> {
        self.propose(root, builder)
    }

    /// What its network says after `root` and after each of `drafts`, which are given; no tree is built and nothing is
    /// kept. `None` of a drafter that has no heads, or before the first committed token.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn trace(&mut self, _root: Token, _drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        Ok(None)
    }
}

/// Plain decoding: never proposes anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDrafter;

impl Drafter for NoDrafter {
    fn name(&self) -> &str {
        "none"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: Committed<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn propose(&mut self, root: Token, _: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        Ok(Proposal::root(root))
    }
}
