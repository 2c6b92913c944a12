//! A chain of drafts: the tree of width 1 of ordinary speculative decoding.

use super::{BuildError, CandidateSource, DraftTree, MAX_NODES, TreeBuilder, TreeKind, builder::expand_level};
use crate::Token;

/// Drafts one token after another, `drafts` in all (the γ of Leviathan et al.).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainTree {
    drafts: usize,
}

/// A chain longer than [`MAX_NODES`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chain of {drafts} drafts is too long: at most {max} fit", max = MAX_NODES - 1)]
pub struct ChainError {
    /// The number of drafts asked for.
    pub drafts: usize,
}

impl ChainTree {
    /// A lone root: a step of plain decoding.
    pub const ROOT: Self = Self { drafts: 0 };

    /// A chain of `drafts` drafted tokens. With none the tree is a lone root, and a step is one of plain decoding.
    ///
    /// # Errors
    /// If the chain and its root have more than [`MAX_NODES`] nodes.
    pub fn new(drafts: usize) -> Result<Self, ChainError> {
        if drafts < MAX_NODES { Ok(Self { drafts }) } else { Err(ChainError { drafts }) }
    }

    /// The number of drafted tokens.
    pub fn drafts(&self) -> usize {
        self.drafts
    }
}

impl TreeBuilder for ChainTree {
    fn max_nodes(&self) -> usize {
        self.drafts + 1
    }

    fn max_depth(&self) -> usize {
        self.drafts
    }

    fn takes_in_order(&self) -> bool {
        true
    }

    fn ranks_at(&self, depth: usize) -> Option<usize> {
        Some(usize::from(depth < self.drafts))
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Chain(self.drafts)
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let mut chain = DraftTree::root(root);
        for last in 0..self.drafts {
            let rows = expand_level(source, chain.tree(), &[last], &[1])?;
            let Some(&next) = rows.row(0).first() else { break };
            chain.push(last, next);
        }
        Ok(chain)
    }
}
