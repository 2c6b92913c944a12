//! Tests of `trie`.

use super::*;
use crate::tree::{ChainTree, FixedTree, OwnTree, TreeBuilder, TreeShape};

#[test]
fn sequences_are_merged_by_prefix() {
    let mut trie = Trie::new(9, 100, 100);
    assert_eq!(trie.insert(&[1, 2, 3]), [0, 1, 2, 3]);
    assert_eq!(trie.insert(&[1, 2, 3]), [0, 1, 2, 3], "a duplicate adds nothing");
    assert_eq!(trie.insert(&[1, 2]), [0, 1, 2], "neither does a prefix");
    assert_eq!(trie.insert(&[1, 4]), [0, 1, 4]);
    assert_eq!(trie.insert(&[2, 2]), [0, 5, 6], "the same token under another parent is another node");
    assert_eq!(trie.insert(&[1, 2, 3, 5]), [0, 1, 2, 3, 7]);
    assert_eq!(trie.insert(&[]), [0]);
    assert_eq!(trie.draft().tree().tokens(), [9, 1, 2, 3, 4, 2, 2, 5]);
    assert_eq!(trie.draft().tree().parents(), [0, 0, 1, 2, 1, 0, 5, 3]);
    assert_eq!((trie.child(0, 2), trie.child(5, 2), trie.child(5, 3)), (Some(5), Some(6), None));
}

#[test]
fn budgets_end_paths_but_known_nodes_cost_nothing() {
    let mut trie = Trie::new(9, 4, 2);
    assert_eq!(trie.insert(&[1, 2, 3]), [0, 1, 2], "two tokens deep");
    assert_eq!(trie.insert(&[4, 5]), [0, 3], "four nodes");
    assert_eq!(trie.insert(&[1, 2]), [0, 1, 2]);
    assert_eq!(trie.insert(&[6]), [0]);
    assert_eq!(trie.into_draft().tree().len(), 4);
    assert_eq!(Trie::new(9, 0, 5).insert(&[1]), [0], "the root is always there");
}

#[test]
fn probabilities_and_entries_are_the_drafters() {
    let mut trie = Trie::new(9, 100, 100);
    let candidate = |token, probability| Candidate { token, probability };
    let path = trie.insert_candidates([candidate(1, 0.5), candidate(2, 0.25)]);
    assert_eq!(trie.insert_candidates([candidate(1, 0.75)]), path[..2], "the first probability stays");
    for source in [0, 1, 1] {
        trie.push_entry(path[1], source);
    }
    let draft = trie.into_draft();
    assert_eq!(draft.probabilities(), [1.0, 0.5, 0.25]);
    assert_eq!(draft.entries().unwrap().iter().map(|entry| entry.source).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn any_builder_can_grow_from_a_trie() {
    let mut trie = Trie::new(9, 100, 100);
    for sequence in [&[1, 2, 3][..], &[4, 5], &[1, 6]] {
        trie.insert(sequence);
    }
    let tokens = |builder: &dyn TreeBuilder, trie: &mut Trie| {
        let built = builder.build(9, trie).unwrap();
        (built.tree().tokens().to_vec(), built.tree().parents().to_vec())
    };
    let own = OwnTree::new(100, 100).unwrap();
    assert_eq!(tokens(&own, &mut trie), (vec![9, 1, 4, 2, 6, 5, 3], vec![0, 0, 0, 1, 1, 2, 3]));
    assert_eq!(tokens(&ChainTree::new(5).unwrap(), &mut trie).0, [9, 1, 2, 3]);
    let fixed = FixedTree::new(TreeShape::cartesian(&[2, 1]).unwrap());
    assert_eq!(tokens(&fixed, &mut trie).0, [9, 1, 4, 2, 5]);
    let empty = &mut Trie::new(9, 100, 100);
    assert_eq!(tokens(&own, empty).0, [9]);
}
