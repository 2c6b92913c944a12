//! A chain of drafts in the making.

use gorgon_core::accept::SamplingScheme;
use gorgon_core::tree::{Candidate, DraftTree};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::drafter::{Proposal, Source};
use gorgon_kernels::top_rows::top_rows;

/// Tokens of a draft model with the rows that they were drawn from, then those of another source.
pub(crate) struct Chain {
    draft: DraftTree,
    own: Source,
    tail: Option<Source>,
}

impl Chain {
    /// A lone root. The first source takes its tokens by `scheme`.
    pub fn new(root: Token, scheme: SamplingScheme) -> Self {
        Self { draft: DraftTree::root(root), own: Source { rows: None, scheme }, tail: None }
    }

    /// The last token.
    pub fn last(&self) -> Token {
        let tree = self.draft.tree();
        tree.token(tree.len() - 1)
    }

    /// Adds a token of the first source, and its row.
    pub fn push(&mut self, token: Token, row: Option<&[f32]>) {
        self.draft.push(self.draft.tree().len() - 1, Candidate { token, probability: 1.0 });
        if let Some(row) = row {
            self.own.rows.get_or_insert_default().extend_from_slice(row);
        }
    }

    /// Adds the first path of a proposal on the last token, as far as its tokens are below `vocab`. A proposal of several
    /// sources counts as a list.
    pub fn append(&mut self, proposal: &Proposal, vocab: usize) {
        let (tree, from) = (proposal.draft.tree(), self.draft.tree().len() - 1);
        let source = proposal.sources.first().filter(|_| proposal.draft.entries().is_none());
        let listed = Source { rows: None, scheme: SamplingScheme::Deterministic };
        let Source { rows, scheme } = source.unwrap_or(&listed);
        let columns = rows.as_ref().map_or(0, |rows| rows.len() / tree.len());
        // Rows of the nodes in front of the tail are never read.
        let mut moved = PooledVec::of(0.0, from * columns);
        let mut node = 0;
        while let Some(child) = tree.children(node).next().filter(|&child| (tree.token(child) as usize) < vocab) {
            self.draft.push(self.draft.tree().len() - 1, Candidate { token: tree.token(child), probability: 1.0 });
            moved.extend_from_slice(rows.as_ref().map_or(&[], |rows| &rows[node * columns..(node + 1) * columns]));
            node = child;
        }
        if node > 0 {
            (1..self.draft.tree().len()).for_each(|node| self.draft.push_entry(node, usize::from(node > from)));
            self.tail = Some(Source { rows: rows.as_ref().map(|_| moved), scheme: *scheme });
        }
    }

    /// The chain with its sources.
    pub fn into_proposal(self) -> Proposal {
        let nodes = self.draft.tree().len();
        let drawn_from = self.tail.as_ref().map_or(nodes - 1, |_| self.own_drafts());
        let whole = |source: Source, known: usize| {
            let rows = source.rows.map(|mut rows| {
                let columns = rows.len() / known.max(1);
                rows.resize(nodes * columns, 0.0);
                rows
            });
            Source { rows, ..source }
        };
        let own = whole(self.own, drawn_from);
        let tail = self.tail.map(|tail| whole(tail, nodes - 1));
        Proposal { sources: std::iter::once(own).chain(tail).collect(), ..Proposal::list(self.draft) }
    }

    /// Drafts of the first source.
    fn own_drafts(&self) -> usize {
        self.draft.entries().map_or(0, |entries| entries.iter().filter(|entry| entry.source == 0).count())
    }
}

/// Whether the most likely token of a row, at temperature 1, is at least as likely as `stop`.
pub(super) fn is_sure(row: &[f32], stop: f64) -> bool {
    top_rows(row, row.len(), &[1]).row(0).first().is_some_and(|&(_, most)| f64::from(most) >= stop)
}
