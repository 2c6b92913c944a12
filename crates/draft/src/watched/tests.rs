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
        let mut watched = Watched::new(&draft, order.clone());
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

#[test]
fn one_draft_of_each_class_is_followed() {
    let chain = |tokens: &[Token]| {
        let mut draft = DraftTree::root(tokens[0]);
        for (node, &token) in tokens[1..].iter().enumerate() {
            draft.push(node, Candidate { token, probability: 1.0 });
        }
        draft
    };
    let mut watches = Watches::<2>::default();
    let begin = |watches: &mut Watches<2>, class: usize, tokens: &[Token]| {
        let draft = chain(tokens);
        watches.begin(class, &draft, order(&draft));
    };
    let follow = |watches: &mut Watches<2>, token: Token, next: Token| {
        let mut ended = vec![];
        watches.follow(&[token], next, [2, 4], |class, watched| ended.push((class, watched.accepted)));
        ended
    };
    begin(&mut watches, 1, &[1, 2, 3, 4]);
    begin(&mut watches, 1, &[9, 9]);
    assert!(!watches.is_free(1) && watches.is_free(3));
    assert!(follow(&mut watches, 1, 2).is_empty());
    begin(&mut watches, 3, &[2, 3, 5]);
    assert!(follow(&mut watches, 2, 3).is_empty());
    assert_eq!(follow(&mut watches, 3, 4), [(3, [1, 1])]);
    assert_eq!(follow(&mut watches, 4, 7), [(1, [1, 3])]);
    begin(&mut watches, 0, &[7, 8]);
    watches.forget();
    assert!((0..CLASSES).all(|class| watches.is_free(class)));
}
