//! A draft that is followed through the text, whether it was verified or not.

use gorgon_core::tree::{Candidate, DraftTree, TokenTree};
use gorgon_core::{PooledVec, Token};

/// Classes of matches by their length: 1, 2 to 3, 4 to 7, and so on; the last has those of 32 tokens and more.
pub(crate) const CLASSES: usize = 6;

/// The class of a match of one token or more.
pub(crate) fn class(matched: usize) -> usize {
    (matched.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// The number of each node in the order of their worth: the product of the probabilities on its path. The first nodes
/// in this order are a tree, since worth never grows along a path.
pub(crate) fn order(draft: &DraftTree) -> PooledVec<usize> {
    let (tree, nodes) = (draft.tree(), draft.tree().len());
    let mut worth = PooledVec::of(1.0, nodes);
    for node in 1..nodes {
        worth[node] = worth[tree.parents()[node]] * draft.probabilities()[node];
    }
    let mut best: PooledVec<usize> = (0..nodes).collect();
    best.sort_unstable_by(|&a, &b| f64::total_cmp(&worth[b], &worth[a]).then(a.cmp(&b)));
    let mut order = PooledVec::of(0, nodes);
    best.iter().enumerate().for_each(|(number, &node)| order[node] = number);
    order
}

/// The first `most` nodes of a list draft in an order.
pub(crate) fn cut(draft: &DraftTree, order: &[usize], most: usize) -> DraftTree {
    let tree = draft.tree();
    let (mut kept, mut places) = (DraftTree::root(tree.token(0)), PooledVec::of(0, tree.len()));
    for node in (1..tree.len()).filter(|&node| order[node] < most) {
        let candidate = Candidate { token: tree.token(node), probability: draft.probabilities()[node] };
        places[node] = kept.push(places[tree.parents()[node]], candidate);
    }
    kept
}

/// Drafts that are followed, one for each class of matches: in a text that repeats itself, matches grow, and what
/// follows the longer ones is measured too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches<const SIZES: usize>([Option<Watched<SIZES>>; CLASSES]);

impl<const SIZES: usize> Watches<SIZES> {
    /// The text goes on elsewhere.
    pub fn forget(&mut self) {
        self.0.fill(None);
    }

    /// True if no draft of this class is being followed.
    pub fn is_free(&self, class: usize) -> bool {
        self.0[class].is_none()
    }

    /// Follows a draft whose root is the next token to be committed, unless one of the class is followed.
    pub fn begin(&mut self, class: usize, draft: &DraftTree, order: PooledVec<usize>) {
        self.0[class].get_or_insert_with(|| Watched::new(draft, order));
    }

    /// Follows committed tokens; `next` is the one behind them. `ended` is told of each draft that the text has left,
    /// with its class.
    pub fn follow(
        &mut self,
        tokens: &[Token],
        next: Token,
        sizes: [usize; SIZES],
        mut ended: impl FnMut(usize, Watched<SIZES>),
    ) {
        for (class, place) in self.0.iter_mut().enumerate() {
            if let Some(watched) = place.take_if(|watched| watched.follow(tokens, next, sizes)) {
                ended(class, watched);
            }
        }
    }
}

/// A draft, and how far the text has followed it.
#[derive(Clone, Debug)]
pub(crate) struct Watched<const SIZES: usize> {
    tree: TokenTree,
    order: PooledVec<usize>,
    /// The last of its nodes that the text has reached; `None` before the root was committed.
    reached: Option<usize>,
    /// Drafts on the text's path that the tree has within so many nodes.
    pub accepted: [usize; SIZES],
}

impl<const SIZES: usize> Watched<SIZES> {
    /// Begins at the root, which is the next token to be committed.
    pub fn new(draft: &DraftTree, order: PooledVec<usize>) -> Self {
        Self { tree: draft.tree().clone(), order, reached: None, accepted: [0; SIZES] }
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.tree.len()
    }

    /// Follows committed tokens; `next` is the one behind them. True once the text has left the tree.
    pub fn follow(&mut self, tokens: &[Token], next: Token, sizes: [usize; SIZES]) -> bool {
        for &token in tokens {
            let next = match self.reached {
                None => Some(0).filter(|_| self.tree.token(0) == token),
                Some(node) => self.tree.children(node).find(|&child| self.tree.token(child) == token),
            };
            let Some(next) = next else { return true };
            if next > 0 {
                let order = self.order[next];
                let counted = self.accepted.iter_mut().zip(sizes).filter(|&(_, size)| order < size);
                counted.for_each(|(count, _)| *count += 1);
            }
            self.reached = Some(next);
        }
        self.reached.is_some_and(|node| self.tree.children(node).all(|child| self.tree.token(child) != next))
    }
}

#[cfg(test)]
mod tests;
