//! Grows a dynamic tree.

use super::DynamicTree;
use crate::tree::{
    BuildError, Candidate, CandidateSource, DraftTree, TreeBuilder, TreeKind, builder::expand_level,
    value::most_valuable,
};
use crate::{PooledVec, Token};

impl TreeBuilder for DynamicTree {
    fn max_nodes(&self) -> usize {
        self.total_nodes.min(1 + self.top_k + self.depth * self.top_k * self.top_k)
    }

    fn max_depth(&self) -> usize {
        (self.depth + 1).min(self.total_nodes - 1)
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Dynamic(*self)
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let mut drafted = DraftTree::root(root);
        if self.total_nodes == 1 {
            return Ok(drafted);
        }
        // Log of the path's probability, by node.
        let mut values = PooledVec::of(0.0, 1);
        let mut frontier = PooledVec::of(0, 1);
        for _ in 0..=self.depth {
            let level_start = drafted.tree().len();
            let rows = expand_level(source, drafted.tree(), &frontier, &PooledVec::of(self.top_k, frontier.len()))?;
            for (&parent, row) in frontier.iter().zip(rows.iter()) {
                let mut row: PooledVec<Candidate> = row.iter().copied().collect();
                row.sort_unstable_by(more_likely_then_lower_token);
                for &candidate in &row {
                    drafted.push(parent, candidate);
                    let value = values[parent] + candidate.probability.ln();
                    values.push(value);
                }
            }
            frontier = most_valuable(level_start..drafted.tree().len(), &values, self.top_k);
            if frontier.is_empty() {
                break;
            }
        }
        let mut kept = most_valuable(1..drafted.tree().len(), &values, self.total_nodes - 1);
        kept.sort_unstable();
        Ok(drafted.keep(&kept))
    }
}

fn more_likely_then_lower_token(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.probability.total_cmp(&a.probability).then(a.token.cmp(&b.token))
}
