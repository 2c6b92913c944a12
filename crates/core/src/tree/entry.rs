//! Entries: which source proposed which child.

use crate::pooled_vec::recycle;

recycle!(Entry);

/// One try of a child by an acceptance rule: source `source` proposed the token of node `child`.
///
/// A list of entries is in the order in which a rule tries them. Several entries may name one child: a node holds its
/// token once, and every sample of that token is an entry of its own. Dropping a repeated sample would bias the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The drafted node.
    pub child: usize,
    /// The source's number.
    pub source: usize,
}
