//! Tests of `token_tree`.

use super::*;

/// The tree of
/// ```text
/// 0 ── 1 ── 3 (draft)
///  │    └── 4 (probe) ── 5 (probe)
///  └── 2 (probe)
/// ```
fn probed() -> TokenTree {
    let mut tree = TokenTree::root(10);
    assert_eq!(tree.push(0, 11), 1);
    assert_eq!(tree.push_probe(0, NodeInput::Token(12)), 2);
    assert_eq!(tree.push(1, 13), 3);
    assert_eq!(tree.push_probe(1, NodeInput::Embedding(0)), 4);
    assert_eq!(tree.push_probe(4, NodeInput::Embedding(1)), 5);
    tree
}

#[test]
fn probes_are_nobodys_children() {
    let tree = probed();
    assert_eq!(tree.children(0).collect::<Vec<_>>(), [1]);
    assert_eq!(tree.children(1).collect::<Vec<_>>(), [3]);
    assert_eq!(tree.children(4).count(), 0);
    assert_eq!(tree.siblings(1).count(), 0);
    assert_eq!(tree.leaves(), [3]);
    assert_eq!(tree.leaf_paths(), [vec![0, 1, 3]]);
}

#[test]
fn slices_by_node_include_probes() {
    let tree = probed();
    assert_eq!((tree.len(), tree.probes(), tree.max_depth()), (6, 3, 3));
    assert_eq!(tree.tokens(), [10, 11, 12, 13, TokenTree::NO_TOKEN, TokenTree::NO_TOKEN]);
    assert_eq!(tree.parents(), [0, 0, 0, 1, 1, 4]);
    assert_eq!(tree.depths(), [0, 1, 1, 2, 2, 3]);
    assert_eq!(tree.path(5), [0, 1, 4, 5]);
    let kinds: Vec<bool> = (0..6).map(|node| tree.kind(node) == NodeKind::Probe).collect();
    assert_eq!(kinds, [false, false, true, false, true, true]);
    let inputs = [2, 3, 5].map(|node| tree.input(node));
    assert_eq!(inputs, [NodeInput::Token(12), NodeInput::Token(13), NodeInput::Embedding(1)]);
}

#[test]
fn a_probe_is_not_the_draft_of_its_token() {
    let (mut drafted, mut probed) = (TokenTree::root(1), TokenTree::root(1));
    drafted.push(0, 2);
    probed.push_probe(0, NodeInput::Token(2));
    assert_eq!(drafted.tokens(), probed.tokens());
    assert_ne!(drafted, probed);
    assert!(!drafted.is_probe(usize::MAX) && !probed.is_probe(usize::MAX));
}

#[test]
#[should_panic(expected = "nothing is drafted below a probe")]
fn nothing_is_drafted_below_a_probe() {
    probed().push(2, 1);
}
