//! Several proposals on one root become one.

use crate::drafter::{Proposal, Source};
use gorgon_core::tree::{Candidate, DraftTree, TokenTree};
use gorgon_core::{PooledVec, Token};

/// The trie of all paths of some proposals, each of which has one source. Source `s` of the result is that of proposal
/// `s`; every draft is an entry, in the order of the proposals and of their nodes.
pub(super) fn merged(root: Token, proposals: &[Proposal]) -> Proposal {
    let mut draft = DraftTree::root(root);
    let places: Vec<PooledVec<usize>> =
        proposals.iter().enumerate().map(|(source, proposal)| insert(&mut draft, proposal, source)).collect();
    let nodes = draft.tree().len();
    let source = |(proposal, place): (&Proposal, &PooledVec<usize>)| {
        let own = proposal.sources.first()?;
        let rows = own.rows.as_ref().map(|rows| moved(rows, proposal.draft.tree(), place, nodes));
        Some(Source { rows, scheme: own.scheme })
    };
    let sources = proposals.iter().zip(&places).filter_map(source).collect();
    Proposal { sources, ..Proposal::list(draft) }
}

/// Adds a proposal's paths and entries. Returns the place of each of its nodes.
fn insert(draft: &mut DraftTree, proposal: &Proposal, source: usize) -> PooledVec<usize> {
    let own = proposal.draft.tree();
    let mut places = PooledVec::of(0, own.len());
    for node in 1..own.len() {
        let candidate = Candidate { token: own.token(node), probability: proposal.draft.probabilities()[node] };
        places[node] = draft.merge(places[own.parents()[node]], candidate, source);
    }
    places
}

/// Rows by node of a proposal, as rows by node of the merged tree. Where several nodes have one place their rows are the
/// same: those of any with children, since a leaf's row was not computed. Places of other proposals alone have zeros,
/// which no rule reads.
fn moved(rows: &[f32], own: &TokenTree, places: &[usize], nodes: usize) -> PooledVec<f32> {
    let columns = rows.len() / own.len();
    let mut moved = PooledVec::of(0.0, nodes * columns);
    for node in (1..own.len()).map(|child| own.parents()[child]) {
        let row = &rows[node * columns..(node + 1) * columns];
        moved[places[node] * columns..][..columns].copy_from_slice(row);
    }
    moved
}
