//! Trees of what followed a match, grown best first.
//!
//! The value of a node is the share of the match's occurrences that its path follows, `Π count(child)/count(parent)`. The
//! node of the greatest value whose parent is in the tree is added until a limit is reached. Ties go to the shallower
//! node, then to the one that was named earlier.

use gorgon_core::Token;
use gorgon_core::tree::{Candidate, Trie};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A token that follows a place of a text, and the place behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Follower<P> {
    pub token: Token,
    /// Times that it follows.
    pub count: usize,
    /// Among equally frequent ones, a greater number goes first.
    pub rank: usize,
    pub place: P,
}

/// A text in which tokens are looked up.
pub(crate) trait Followed {
    /// A place in it: the occurrences of some sequence.
    type Place: Copy;

    /// Adds what follows a place, and returns the number of occurrences, of which some may be followed by nothing.
    fn followers(&mut self, place: Self::Place, found: &mut Vec<Follower<Self::Place>>) -> usize;
}

/// Sizes of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Nodes, the root included.
    pub nodes: usize,
    /// Drafts on a path.
    pub depth: usize,
    /// Nodes of one depth.
    pub level: usize,
    /// Children of a node.
    pub children: usize,
}

/// A node that may be added next. The greatest is the best.
#[derive(Clone, Copy, Debug)]
struct Open<P> {
    value: f64,
    depth: usize,
    number: usize,
    parent: usize,
    candidate: Candidate,
    place: P,
}

/// Grows trees; keeps its memory.
#[derive(Clone, Debug)]
pub(crate) struct Growth<P> {
    open: Vec<Open<P>>,
    followers: Vec<Follower<P>>,
    levels: Vec<usize>,
}

impl<P> Default for Growth<P> {
    fn default() -> Self {
        Self { open: vec![], followers: vec![], levels: vec![] }
    }
}

impl<P: Copy> Growth<P> {
    /// The tree of what follows a place, on `root`, the last token before it.
    pub fn grow(&mut self, text: &mut impl Followed<Place = P>, place: P, root: Token, limits: Limits) -> Trie {
        let mut trie = Trie::new(root, limits.nodes, limits.depth);
        self.open.clear();
        self.levels.clear();
        self.levels.resize(limits.depth, 0);
        let mut open = BinaryHeap::from(std::mem::take(&mut self.open));
        let (mut next, mut named) = (Some((0, 0, 1.0, place)), 0);
        while let Some((node, depth, value, place)) = next
            && trie.draft().tree().len() < limits.nodes
        {
            if depth < limits.depth {
                let of = Open { value, depth: depth + 1, number: named, parent: node, candidate: NOTHING, place };
                named += self.name(text, of, limits.children, &mut open);
            }
            next = None;
            while next.is_none()
                && let Some(best) = open.pop()
            {
                let level = &mut self.levels[best.depth - 1];
                if *level < limits.level {
                    *level += 1;
                    next = trie
                        .child_or_new(best.parent, best.candidate)
                        .map(|node| (node, best.depth, best.value, best.place));
                }
            }
        }
        self.open = open.into_vec();
        trie
    }

    /// Opens the best children of a place; `of` has what they share. Returns how many.
    fn name(
        &mut self,
        text: &mut impl Followed<Place = P>,
        of: Open<P>,
        children: usize,
        open: &mut BinaryHeap<Open<P>>,
    ) -> usize {
        self.followers.clear();
        let all = text.followers(of.place, &mut self.followers);
        let order =
            |a: &Follower<P>, b: &Follower<P>| (b.count, b.rank).cmp(&(a.count, a.rank)).then(a.token.cmp(&b.token));
        if self.followers.len() > children && children > 0 {
            self.followers.select_nth_unstable_by(children - 1, order);
        }
        self.followers.truncate(children);
        self.followers.sort_unstable_by(order);
        for (i, follower) in self.followers.iter().enumerate() {
            let probability = follower.count as f64 / all.max(1) as f64;
            open.push(Open {
                value: of.value * probability,
                number: of.number + i,
                candidate: Candidate { token: follower.token, probability },
                place: follower.place,
                ..of
            });
        }
        self.followers.len()
    }
}

/// Stands in for a candidate that is set later.
const NOTHING: Candidate = Candidate { token: 0, probability: 0.0 };

impl<P> Ord for Open<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = self.value.total_cmp(&other.value);
        by_value.then(other.depth.cmp(&self.depth)).then(other.number.cmp(&self.number))
    }
}

impl<P> PartialOrd for Open<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Open<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for Open<P> {}
