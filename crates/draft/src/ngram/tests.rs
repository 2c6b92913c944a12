//! Tests of `ngram`.

use super::*;
use gorgon_core::tree::{ChainTree, FixedTree, TreeBuilder, TreeShape};

fn drafted(text: &[Token], root: Token, n: usize, builder: &dyn TreeBuilder) -> (Vec<Token>, Vec<f64>) {
    let mut drafter = NgramDrafter::new(n);
    drafter.text = text.to_vec();
    let proposal = drafter.propose(root, builder).unwrap();
    assert_eq!(drafter.text, text, "the root is not committed yet");
    (proposal.draft.tree().tokens().to_vec(), proposal.draft.probabilities().to_vec())
}

#[test]
fn a_chain_goes_on_as_the_text_did() {
    let chain = ChainTree::new(4).unwrap();
    assert_eq!(drafted(&[1, 2, 3, 4, 5, 1], 2, 2, &chain).0, [2, 3, 4, 5, 1]);
    // Nothing repeats: a lone root.
    assert_eq!(drafted(&[1, 2, 3], 9, 3, &chain).0, [9]);
    // What was just said counts too, and a draft may run into the end of the text and start over.
    assert_eq!(drafted(&[7, 7], 7, 3, &chain).0, [7; 5]);
    assert_eq!(drafted(&[], 7, 3, &chain).0, [7]);
}

#[test]
fn longer_matches_go_first() {
    let chain = ChainTree::new(1).unwrap();
    let text = [1, 2, 3, 9, 2, 4, 9, 2, 4, 1];
    assert_eq!(drafted(&text, 2, 1, &chain).0, [2, 4]);
    assert_eq!(drafted(&text, 2, 2, &chain).0, [2, 3]);
}

#[test]
fn siblings_are_the_followers_by_frequency_then_recency() {
    let tree = FixedTree::new(TreeShape::new(vec![vec![0], vec![1], vec![2], vec![3]]).unwrap());
    let (tokens, shares) = drafted(&[1, 5, 1, 6, 1, 7, 1, 6, 2], 1, 2, &tree);
    assert_eq!(tokens, [1, 6, 7, 5]);
    assert_eq!(shares, [1.0, 0.5, 0.25, 0.25]);
}
