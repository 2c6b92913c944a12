//! Tests of `draft_tree`.

use super::*;

fn candidate(token: Token, probability: f64) -> Candidate {
    Candidate { token, probability }
}

/// Two sources draw under the root: source 0 tokens 5 and 5, source 1 tokens 6 and 5; a probe hangs below token 6.
fn merged() -> DraftTree {
    let mut draft = DraftTree::root(9);
    let nodes = [(5, 0), (5, 0), (6, 1), (5, 1)].map(|(token, source)| draft.merge(0, candidate(token, 0.5), source));
    assert_eq!(nodes, [1, 1, 2, 1]);
    assert_eq!(draft.push_probe(2, NodeInput::Embedding(3)), 3);
    draft
}

fn entries(draft: &DraftTree) -> Vec<(usize, usize)> {
    draft.entries().unwrap().iter().map(|entry| (entry.child, entry.source)).collect()
}

#[test]
fn merging_keeps_every_sample_as_an_entry() {
    let draft = merged();
    assert_eq!(draft.tree().tokens(), [9, 5, 6, TokenTree::NO_TOKEN]);
    assert_eq!(entries(&draft), [(1, 0), (1, 0), (2, 1), (1, 1)]);
    assert_eq!(draft.probabilities(), [1.0, 0.5, 0.5, 0.0]);
    assert_eq!(DraftTree::root(9).entries(), None);
}

#[test]
fn other_tokens_keep_entries_and_probes() {
    let changed = merged().with_tokens(&[1, 2, 3, 4]);
    assert_eq!(changed.tree().tokens(), [9, 2, 3, TokenTree::NO_TOKEN]);
    assert_eq!(changed.tree().input(3), NodeInput::Embedding(3));
    assert_eq!(entries(&changed), [(1, 0), (1, 0), (2, 1), (1, 1)]);
}

#[test]
fn entries_follow_the_nodes_that_are_kept() {
    let kept = merged().keep(&[2, 3]);
    assert_eq!(kept.tree().tokens(), [9, 6, TokenTree::NO_TOKEN]);
    assert!(kept.tree().is_probe(2));
    assert_eq!(kept.source_nodes(), [0, 2, 3]);
    assert_eq!(entries(&kept), [(1, 1)]);
}

#[test]
#[should_panic(expected = "node 3 is not a drafted node")]
fn a_probe_has_no_entries() {
    merged().push_entry(3, 0);
}
