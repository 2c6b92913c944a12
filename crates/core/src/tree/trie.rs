//! A trie: token sequences merged into one tree.

use super::{Candidate, CandidateRows, CandidateSource, DraftTree, SourceError, TokenTree};
use crate::{PooledVec, Token};

/// Token sequences after a root, merged by prefix: every node holds its token once, and children keep the order in
/// which they were inserted (SpecInfer's merged token tree).
///
/// Drafters that know whole phrases use it in two ways. As a [`DraftTree`] it is the tree itself, within a budget of
/// nodes and depth. As a [`CandidateSource`] it names each node's children in insertion order, for any builder.
#[derive(Clone, Debug)]
pub struct Trie {
    draft: DraftTree,
    /// First child by node.
    first: PooledVec<Option<usize>>,
    /// Next sibling by node.
    next: PooledVec<Option<usize>>,
    max_nodes: usize,
    max_depth: usize,
}

impl Trie {
    /// A lone root with room for `max_nodes` nodes, the root included, and paths of `max_depth` tokens after it.
    pub fn new(root: Token, max_nodes: usize, max_depth: usize) -> Self {
        let (first, next) = (PooledVec::of(None, 1), PooledVec::of(None, 1));
        Self { draft: DraftTree::root(root), first, next, max_nodes, max_depth }
    }

    /// Inserts a sequence of tokens after the root, each of probability 1, and returns its nodes from the root
    /// (included) on. The path ends early where a budget is spent; nodes that exist already cost nothing.
    pub fn insert(&mut self, tokens: &[Token]) -> PooledVec<usize> {
        self.insert_candidates(tokens.iter().map(|&token| Candidate { token, probability: 1.0 }))
    }

    /// Inserts tokens with the drafter's probabilities. A node keeps the probability it was first inserted with.
    pub fn insert_candidates(&mut self, sequence: impl IntoIterator<Item = Candidate>) -> PooledVec<usize> {
        let mut path = PooledVec::of(0, 1);
        for candidate in sequence.into_iter().take(self.max_depth) {
            let Some(child) = self.child_or_new(path[path.len() - 1], candidate) else { break };
            path.push(child);
        }
        path
    }

    /// Adds an entry of `source` for a node: see [`DraftTree::push_entry`].
    ///
    /// # Panics
    /// If `child` is the root or no node.
    pub fn push_entry(&mut self, child: usize, source: usize) {
        self.draft.push_entry(child, source);
    }

    /// The child of `node` with this token, if there is one.
    pub fn child(&self, node: usize, token: Token) -> Option<usize> {
        self.children(node).find(|&child| self.draft.tree().token(child) == token)
    }

    /// The merged tree.
    pub fn draft(&self) -> &DraftTree {
        &self.draft
    }

    /// The merged tree alone.
    pub fn into_draft(self) -> DraftTree {
        self.draft
    }

    /// The children of `node` in insertion order.
    fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first[node], |&child| self.next[child])
    }

    /// The child of `parent` with a candidate's token, which is added if there is none; `None` where it is new and the
    /// budget of nodes is spent.
    ///
    /// # Panics
    /// If `parent` is no node.
    pub fn child_or_new(&mut self, parent: usize, candidate: Candidate) -> Option<usize> {
        if let Some(known) = self.child(parent, candidate.token) {
            return Some(known);
        }
        if self.draft.tree().len() >= self.max_nodes {
            return None;
        }
        let last = self.children(parent).last();
        let node = self.draft.push(parent, candidate);
        match last {
            Some(last) => self.next[last] = Some(node),
            None => self.first[parent] = Some(node),
        }
        self.first.push(None);
        self.next.push(None);
        Some(node)
    }

    /// The trie's node on the path of `tree`'s `node`, if there is one. Root tokens are not compared.
    fn locate(&self, tree: &TokenTree, node: usize) -> Option<usize> {
        tree.path(node)[1..].iter().try_fold(0, |at, &step| self.child(at, tree.token(step)))
    }
}

impl CandidateSource for Trie {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let candidate = |child: usize| {
            let (token, probability) = (self.draft.tree().token(child), self.draft.probabilities()[child]);
            Candidate { token, probability }
        };
        let row = |(&node, &width): (&usize, &usize)| {
            let at = self.locate(tree, node).into_iter();
            at.flat_map(|at| self.children(at)).take(width).map(candidate)
        };
        Ok(nodes.iter().zip(widths).map(row).collect())
    }
}

#[cfg(test)]
mod tests;
