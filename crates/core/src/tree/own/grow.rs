//! Grows a tree best-first within a budget.

use super::OwnTree;
use crate::Token;
use crate::tree::{BuildError, CandidateSource, DraftTree, MAX_RANK, TreeBuilder, TreeKind, growth::Growth};

impl TreeBuilder for OwnTree {
    fn max_nodes(&self) -> usize {
        self.nodes
    }

    fn max_depth(&self) -> usize {
        self.depth.min(self.nodes - 1)
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Own(*self)
    }

    fn is_budget(&self) -> bool {
        true
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let room = self.nodes - 1;
        let growth = Growth::grown(root, source, (room, self.max_depth(), MAX_RANK + 1), f64::NEG_INFINITY)?;
        Ok(growth.keep(growth.best(room).0))
    }
}
