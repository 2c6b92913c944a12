//! A sequence's part in a step, and what the step makes of it.

use crate::session::Session;
use gorgon_core::accept::RandomSource;
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
