//! What a rule decides.

use crate::{PooledVec, Token};

/// What a rule decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Nodes from the root (included) to the last accepted one.
    pub path: PooledVec<usize>,
    /// The token emitted after the path.
    pub bonus: Token,
}
