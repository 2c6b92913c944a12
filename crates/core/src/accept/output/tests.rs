//! Tests of `output`.

use super::*;
use crate::accept::{AcceptanceRule, DraftRows, Greedy, RuleChoice, Verdict, random::SeededRandom};
use crate::dist::Transform;
use crate::tree::TokenTree;

const RULES: [&str; 14] = [
    "sampling",
    "coupled",
    "block",
    "traversal",
    "k-seq",
    "typical",
    "lossy:0.1",
    "chow:0.1",
    "token-v3:0.1",
    "bild:0.5,2",
    "top-beta:2,1",
    "lossy:0.1,balanced",
    "opt:0.1",
    "diff:0.2",
];

#[test]
fn a_rule_that_needs_logits_refuses_argmax_tokens() {
    let tree = TokenTree::from_parts(vec![0, 1], vec![0, 0]).unwrap();
    for transform in [Transform::GREEDY, Transform::IDENTITY] {
        for name in RULES {
            let rule = name.parse::<RuleChoice>().unwrap().rule(transform);
            let random = &mut SeededRandom::new(0);
            let verdict = rule.accept(&tree, DraftRows::NONE, TargetRows::Argmax(&[1, 2]), random);
            match rule.needs() {
                TargetOutput::Logits => assert_eq!(verdict, Err(TargetError::NoLogits { node: 0 }), "{name}"),
                TargetOutput::Argmax => assert_eq!(verdict.unwrap().bonus, 2, "{name}"),
            }
            // Some rules emit the argmax wherever nothing was drafted.
            let next = rule.next(0, TargetRows::Argmax(&[1]), random);
            assert!(matches!(next, Ok(1) | Err(TargetError::NoLogits { node: 0 })), "{name}: {next:?}");
        }
    }
}

#[test]
fn greedy_decides_alike_from_argmax_tokens_and_from_logits() {
    let tree = TokenTree::from_parts(vec![0, 1, 2, 0], vec![0, 0, 0, 2]).unwrap();
    let logits = [0.0, 1.0, 5.0, 0.0, 0.0, 0.0, 3.0, 2.0, 1.0, 0.0, 1.0, 0.0];
    let random = &mut SeededRandom::new(0);
    let full = Greedy.accept(&tree, DraftRows::NONE, TargetRows::Logits { data: &logits, vocab: 3 }, random);
    let short = Greedy.accept(&tree, DraftRows::NONE, TargetRows::Argmax(&[2, 0, 0, 1]), random);
    assert_eq!(full, Ok(Verdict { path: vec![0, 2, 3].into(), bonus: 1 }));
    assert_eq!(full, short);
    assert_eq!(Greedy.needs(), TargetOutput::Argmax);
    assert_eq!(Greedy.next(7, Row::Logits(&logits[..3]).into(), random), Ok(2));
}

#[test]
fn output_that_ends_early_is_an_error() {
    let tree = TokenTree::from_parts(vec![0, 1], vec![0, 0]).unwrap();
    let random = &mut SeededRandom::new(0);
    let missing = Err(TargetError::Missing { node: 1 });
    assert_eq!(Greedy.accept(&tree, DraftRows::NONE, TargetRows::Argmax(&[1]), random), missing);
    for name in RULES {
        let rule = name.parse::<RuleChoice>().unwrap().rule(Transform::IDENTITY);
        let target = TargetRows::Probabilities { data: &[0.0, 1.0], vocab: 2 };
        assert_eq!(rule.accept(&tree, DraftRows::NONE, target, random), missing, "{name}");
    }
}
