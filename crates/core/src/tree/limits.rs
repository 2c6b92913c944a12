//! The largest sizes of trees.

/// The largest tree that is built, in nodes with the root. Published trees have 64; one verification pass over more
/// than a few hundred nodes costs more than it can win.
pub const MAX_NODES: usize = 4096;

/// The greatest rank in a [`TreeShape`](super::TreeShape): a node is at most its parent's 1024th guess.
pub const MAX_RANK: usize = 1023;

/// The greatest depth in a [`TreeShape`](super::TreeShape), the root being at depth 0.
pub const MAX_DEPTH: usize = 128;
