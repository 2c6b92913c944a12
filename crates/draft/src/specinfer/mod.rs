//! SpecInfer (Miao et al., 2024, <https://arxiv.org/abs/2305.09781>): several drafters each grow a tree, and the trees
//! are merged into one that is verified in one pass.
//!
//! Source `s` grows a tree with `k_i` children per node of depth `i - 1`. The merged tree is the trie of all paths. It
//! holds a token once per place, and an entry for every draft, repeated ones included. A rule that reads distributions
//! tries the entries `(x, s)` of a node `u` in order: accept with `min(1, p(x|u)/q_s(x|u))`, else
//! `p <- norm(max(0, p - q_s))`. The entries of source 1 come first, then those of source 2 and so on, each source's in
//! the order in which it drew them. So the order does not depend on tokens, and the text has the target's distribution
//! (section 4.3 of the paper; [`gorgon_core::accept::DraftRows`] has the conditions).
//!
//! Differences from the paper: a source draws the children of a node as the acceptance rule is served best, which is
//! without replacement for all rules but `k-seq`. Under coupled rules, and where a tree keeps the best of its
//! candidates, all drafts are lists.

mod merge;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_core::Token;
use gorgon_core::tree::{FixedTree, TreeBuilder, TreeKind, TreeShape};
use merge::merged;
use smallvec::SmallVec;

/// Several drafters whose trees are merged. They read nothing of the target but its text.
pub struct SpecInferDrafter<D> {
    name: String,
    sources: Vec<D>,
    /// The tree of each source where the drafter makes its own.
    expansion: FixedTree,
}

impl<D: Drafter> SpecInferDrafter<D> {
    /// Over these drafters. Where the tree is a budget ([`TreeKind::Own`]) each of them grows `expansion`, otherwise
    /// the tree that is named.
    pub fn new(name: String, sources: Vec<D>, expansion: TreeShape) -> Self {
        Self { name, sources, expansion: FixedTree::new(expansion) }
    }

    /// The drafters.
    pub fn sources(&self) -> &[D] {
        &self.sources
    }
}

impl<D: Drafter> Drafter for SpecInferDrafter<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn reset(&mut self) {
        self.sources.iter_mut().for_each(Drafter::reset);
    }

    fn truncate(&mut self, length: usize) -> bool {
        let mut kept = true;
        self.sources.iter_mut().for_each(|source| kept &= source.truncate(length));
        if !kept {
            self.reset();
        }
        kept
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.sources.iter_mut().try_for_each(|source| source.observe(pass))
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let named = context.tree;
        let tree = match named.kind() {
            TreeKind::Own(_) => CoupledTree { tree: &self.expansion, ..named },
            TreeKind::Fixed(_) | TreeKind::Chain(_) | TreeKind::Dynamic(_) => named,
        };
        let mut proposals = SmallVec::<[Proposal; 4]>::new();
        for source in &mut self.sources {
            let random = &mut *context.random;
            proposals.push(source.draft(root, &mut DraftContext { tree, random, target: None })?);
        }
        Ok(merged(root, &proposals))
    }
}

#[cfg(test)]
mod tests;
