//! The order of nodes by the probability of their paths.

use crate::PooledVec;

/// The `count` nodes of greatest value, most valuable first; ties to the earlier node.
pub(super) fn most_valuable(nodes: std::ops::Range<usize>, values: &[f64], count: usize) -> PooledVec<usize> {
    let mut nodes: PooledVec<usize> = nodes.collect();
    nodes.sort_unstable_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    nodes.truncate(count);
    nodes
}
