//! A sequence's part in a step, and what the step makes of it.

use crate::session::Session;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::{PooledVec, Token};
use smallvec::SmallVec;

/// A sequence's part in a step.
pub struct Turn<'a> {
    /// Its slot.
    pub slot: usize,
    /// Its last emitted token, which it has not read yet.
    pub root: Token,
    /// Tokens that it may emit, at least one.
    pub left: usize,
    /// Tokens after which it emits nothing more.
    pub end_tokens: &'a [Token],
    /// Where its random choices come from.
    pub random: &'a mut dyn RandomSource,
    /// How its tokens are picked; the method's rule if there is none.
    pub rule: Option<&'a dyn AcceptanceRule>,
    /// Whether it is drafted.
    pub drafts: bool,
}

impl Turn<'_> {
    /// Cuts what a step emits after an end token and where no token is left. At least one token stays.
    pub(crate) fn cut(&self, tokens: &mut PooledVec<Token>) {
        let end = tokens.iter().position(|token| self.end_tokens.contains(token)).map_or(tokens.len(), |at| at + 1);
        tokens.truncate(end.min(self.left.max(1)));
    }
}

/// Tokens that a step emitted for one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// Accepted drafts, then the bonus token, cut after an end token and where no token is left: at least one.
    pub tokens: PooledVec<Token>,
    /// Accepted drafts, those that were cut off included.
    pub accepted: usize,
    /// Nodes of the tree, the root included.
    pub nodes: usize,
}

/// The outcomes of a step, by turn. One needs no memory of its own.
pub type Outcomes = SmallVec<[StepOutcome; 1]>;

/// A sequence that takes part.
pub(crate) type Part<'a, 't, T, D> = (&'a mut Session<T, D>, &'a mut Turn<'t>);

/// The sequences that take part; one needs no memory of its own.
pub(crate) type Parts<'a, 't, T, D> = SmallVec<[Part<'a, 't, T, D>; 1]>;
