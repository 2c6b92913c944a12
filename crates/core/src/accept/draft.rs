//! The drafter's distributions for its own tree.

use super::{Rows, SamplingScheme};
use crate::{
    dist::Row,
    tree::{Entry, TokenTree},
};

/// One source of drafts: a drafter, or one part of it.
///
/// Rows are the source's own distributions before any [`Transform`](crate::dist::Transform); the rule applies the
/// transform, and the source must have drawn from the transformed distribution. Rows are untrusted: where one is
/// missing or not [valid](Row::is_valid) the source's entries count as a deterministic list. Rows of nodes without
/// children are never read.
///
/// A source that takes the children of some nodes by one scheme and those of others by another is two sources that
/// share their rows.
#[derive(Clone, Copy, Debug)]
pub struct DraftSource<'a> {
    /// The distribution *at* each node, from which its children were taken; `None` if the source has none.
    pub rows: Option<Rows<'a>>,
    /// How the children were taken.
    pub scheme: SamplingScheme,
}

/// The distributions a drafted tree was made from, and its entries: which source proposed which child.
///
/// A rule that compares drafts with `q` tries a node's entries in order. An entry `(x, s)` is accepted with
/// `min(1, p(x)/q_s(x))`, else `p <- norm(max(0, p - q_s))`; entries of a list are point masses. Multi-step speculative
/// sampling of several drafts ([SpecInfer](https://arxiv.org/abs/2305.09781), section 4.3) is this with one source per
/// draft. The output has the target's distribution if:
///
/// * every entry was drawn from its source's distribution at that node, by its source's scheme, and every sample is an
///   entry, repeated ones included;
/// * the order of a node's entries does not depend on sampled tokens;
/// * the tokens of a list do not depend on samples that are tried after them.
///
/// Rules that do not read `q` (greedy, coupled, typical, BiLD, top-β) judge every drafted child, with or without an
/// entry.
///
/// Entries are untrusted: one whose child is no drafted node is ignored, one whose source does not exist is of a list.
#[derive(Clone, Copy, Debug)]
pub struct DraftRows<'a> {
    sources: Sources<'a>,
    entries: Option<&'a [Entry]>,
}

#[derive(Clone, Copy, Debug)]
enum Sources<'a> {
    One(DraftSource<'a>),
    Several(&'a [DraftSource<'a>]),
}

impl<'a> DraftRows<'a> {
    /// A drafter without distributions: every node's children are a list.
    pub const NONE: DraftRows<'static> = DraftRows::single(None, SamplingScheme::Deterministic);

    /// One source. Every child is one entry, in child order.
    pub const fn single(rows: Option<Rows<'a>>, scheme: SamplingScheme) -> Self {
        Self { sources: Sources::One(DraftSource { rows, scheme }), entries: None }
    }

    /// Several sources, and the entries of the whole tree in the order in which a rule tries them. Without entries
    /// every child is one entry of source 0, in child order.
    pub const fn new(sources: &'a [DraftSource<'a>], entries: Option<&'a [Entry]>) -> Self {
        Self { sources: Sources::Several(sources), entries }
    }

    /// The sources by number.
    pub fn sources(&self) -> &[DraftSource<'a>] {
        match &self.sources {
            Sources::One(source) => std::slice::from_ref(source),
            Sources::Several(sources) => sources,
        }
    }

    /// The entries of `node`'s children, in the order in which a rule tries them.
    pub fn entries_at<'t>(&self, tree: &'t TokenTree, node: usize) -> impl Iterator<Item = Entry> + use<'a, 't> {
        let is_here = move |entry: &Entry| {
            let is_child = entry.child > node && tree.parents().get(entry.child) == Some(&node);
            is_child && !tree.is_probe(entry.child)
        };
        let listed = self.entries.into_iter().flatten().copied().filter(is_here);
        let children = self.entries.is_none().then(|| tree.children(node)).into_iter().flatten();
        listed.chain(children.map(|child| Entry { child, source: 0 }))
    }

    /// The row of `node` in `source`, if there is one and it is valid.
    pub fn valid_row(&self, source: usize, node: usize) -> Option<Row<'a>> {
        self.sources().get(source)?.rows?.row(node).filter(Row::is_valid)
    }

    /// How `source` took its children; an unknown source has a list.
    pub fn scheme(&self, source: usize) -> SamplingScheme {
        self.sources().get(source).map_or(SamplingScheme::Deterministic, |source| source.scheme)
    }
}

#[cfg(test)]
mod tests;
