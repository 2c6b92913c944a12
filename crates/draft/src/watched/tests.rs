//! Tests of `watched` against trees of their own.

use super::*;
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::random::SeededRandom;

/// A tree whose nodes are drafted in any order, with tokens below 3.
fn tree(random: &mut SeededRandom) -> DraftTree {
    let mut draft = DraftTree::root(0);
    for _ in 0..30 {
        let parent = random.pick(&vec![1.0; draft.tree().len()]);
        let token = random.pick(&[1.0, 1.0, 1.0]) as Token;
        if draft.tree().children(parent).all(|child| draft.tree().token(child) != token) {
            draft.push(parent, Candidate { token, probability: [1.0, 0.5, 0.3][token as usize] });
        }
    }
    draft
}

fn accepted(tree: &TokenTree, text: &[Token]) -> usize {
    let (mut node, mut count) = (0, 0);
    for &token in text {
        let Some(child) = tree.children(node).find(|&child| tree.token(child) == token) else { break };
        (node, count) = (child, count + 1);
    }
    count
}

/// Counts of the first nodes are what their tree alone would have accepted.
#[test]
fn counts_are_those_of_the_smaller_trees() {
    for seed in 0..300 {
        let mut random = SeededRandom::new(seed);
        let draft = tree(&mut random);
        let order = order(&draft);
        let sizes = [1, 3, 8, 40];
        let text: Vec<Token> = (0..40).map(|_| random.pick(&[1.0, 1.0, 1.0]) as Token).collect();
        let mut watched = Watched::new(0, &draft, order.clone());
        assert!(!watched.follow(&[], 0, sizes));
        let mut pieces = [(&[0][..], 0), (&text[..2], 2), (&text[2..3], 3), (&text[3..39], 39)].into_iter();
        assert!(pieces.any(|(piece, end)| watched.follow(piece, text[end], sizes)), "the text leaves every tree");
        for (size, counted) in sizes.into_iter().zip(watched.accepted) {
            let kept = cut(&draft, &order, size);
            assert_eq!(kept.tree().len(), size.min(draft.tree().len()));
            assert_eq!(counted, accepted(kept.tree(), &text), "seed {seed}, {size} nodes");
        }
    }
}
