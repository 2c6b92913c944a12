//! Tests of `draft`.

use super::*;
use crate::tree::NodeInput;

/// Two drafts under the root, a draft and a probe under the first.
fn tree() -> TokenTree {
    let mut tree = TokenTree::from_parts(vec![0, 1, 2, 1], vec![0, 0, 0, 1]).unwrap();
    tree.push_probe(1, NodeInput::Token(2));
    tree
}

fn at(draft: DraftRows<'_>, node: usize) -> Vec<(usize, usize)> {
    draft.entries_at(&tree(), node).map(|entry| (entry.child, entry.source)).collect()
}

#[test]
fn without_entries_every_child_is_one_of_source_0() {
    for draft in [DraftRows::NONE, DraftRows::single(None, SamplingScheme::Independent), DraftRows::new(&[], None)] {
        assert_eq!((at(draft, 0), at(draft, 1), at(draft, 2)), (vec![(1, 0), (2, 0)], vec![(3, 0)], vec![]));
    }
}

#[test]
fn entries_keep_their_order_and_repetitions() {
    let entry = |(child, source)| Entry { child, source };
    // 3 and 4 belong to node 1, where 4 is a probe; 0 is the root; 9 is no node.
    let entries = [(2, 1), (3, 0), (1, 0), (2, 1), (4, 0), (0, 0), (9, 0), (2, 7)].map(entry);
    let draft = DraftRows::new(&[], Some(&entries));
    assert_eq!(at(draft, 0), [(2, 1), (1, 0), (2, 1), (2, 7)]);
    assert_eq!(at(draft, 1), [(3, 0)]);
    assert_eq!(at(DraftRows::new(&[], Some(&[])), 0), []);
}

#[test]
fn rows_that_are_missing_or_not_valid_are_none() {
    let (good, bad) = ([0.5, 0.5, f64::NAN, 1.0], [f32::NAN, 0.0]);
    let sources = [
        DraftSource { rows: Some(Rows::Probabilities { data: &good, vocab: 2 }), scheme: SamplingScheme::Independent },
        DraftSource { rows: Some(Rows::Logits { data: &bad, vocab: 2 }), scheme: SamplingScheme::WithoutReplacement },
    ];
    let draft = DraftRows::new(&sources, None);
    assert_eq!(draft.valid_row(0, 0), Some(Row::Probabilities(&[0.5, 0.5])));
    for (source, node) in [(0, 1), (0, 2), (1, 0), (2, 0), (0, usize::MAX)] {
        assert_eq!(draft.valid_row(source, node), None);
    }
    assert_eq!(draft.scheme(1), SamplingScheme::WithoutReplacement);
    assert_eq!(draft.scheme(2), SamplingScheme::Deterministic);
}
