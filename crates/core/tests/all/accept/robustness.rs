//! Drafters are untrusted: whatever they hand over, no rule panics, and greedy text stays the target's.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{DraftRows, DraftSource, Entry, Rows, RuleChoice, SamplingScheme, TargetRows, Verdict};
use gorgon_core::dist::{Transform, argmax};
use gorgon_core::tree::TokenTree;
use proptest::prelude::*;

const VOCAB: usize = 5;
const RULES: [&str; 17] = [
    "auto",
    "greedy",
    "sampling",
    "coupled",
    "block",
    "traversal",
    "typical",
    "lossy:0.3",
    "lossy:0.3,balanced",
    "chow:0.4",
    "diff:0.1",
    "opt:0.2",
    "token-v1:0.2",
    "token-v3:0.3",
    "bild:0.5,2",
    "top-beta:2,1.5",
    "k-seq",
];

/// Scores of every kind a broken network can produce.
fn score() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => -5.0_f32..5.0,
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::MAX),
        1 => Just(0.0),
    ]
}

/// A tree with tokens beyond the vocabulary among others, and repeated siblings.
fn tree() -> impl Strategy<Value = TokenTree> {
    let node = (0..VOCAB as Token + 2, any::<prop::sample::Index>());
    prop::collection::vec(node, 0..10).prop_map(|nodes| {
        let mut tree = TokenTree::root(1);
        for (token, parent) in nodes {
            tree.push(parent.index(tree.len()), token);
        }
        tree
    })
}

/// An entry of any child and source, existing or not.
fn entry() -> impl Strategy<Value = Entry> {
    (0_usize..12, 0_usize..4).prop_map(|(child, source)| Entry { child, source })
}

fn scheme() -> impl Strategy<Value = SamplingScheme> {
    prop_oneof![
        Just(SamplingScheme::Independent),
        Just(SamplingScheme::WithoutReplacement),
        Just(SamplingScheme::Deterministic)
    ]
}

fn transform() -> impl Strategy<Value = Transform> {
    let temperature = prop_oneof![Just(0.0), Just(1.0), Just(1e-300), 0.1_f64..3.0];
    (temperature, prop::option::of(1_usize..7), prop::option::of(0.0_f64..1.0))
        .prop_map(|(temperature, top_k, top_p)| Transform::new(temperature, top_k, top_p).unwrap())
}

/// Every emitted token is the target's argmax after the tokens before it, as in plain greedy decoding.
fn assert_greedy(tree: &TokenTree, target: &[f32], verdict: &Verdict) -> Result<(), TestCaseError> {
    let best = |node: &usize| argmax(&target[node * VOCAB..(node + 1) * VOCAB]).unwrap() as Token;
    let greedy: Vec<Token> = verdict.path.iter().map(best).collect();
    let emitted: Vec<Token> = verdict.path[1..].iter().map(|&node| tree.token(node)).chain([verdict.bonus]).collect();
    prop_assert_eq!(greedy, emitted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_drafter_makes_a_rule_panic_or_greedy_text_change(
        tree in tree(),
        target in prop::collection::vec(-5.0_f32..5.0, 10 * VOCAB),
        draft in prop::collection::vec(score(), 0..12 * VOCAB),
        draft_vocab in 0..VOCAB + 3,
        scheme in scheme(),
        other in scheme(),
        entries in prop::option::of(prop::collection::vec(entry(), 0..12)),
        transform in transform(),
        seed in any::<u64>(),
    ) {
        let rows = Rows::Logits { data: &draft, vocab: draft_vocab };
        let probabilities: Vec<f64> = draft.iter().map(|&score| f64::from(score)).collect();
        let weights = Rows::Probabilities { data: &probabilities, vocab: draft_vocab };
        for rows in [None, Some(rows), Some(weights)] {
            for rule in RULES {
                let choice: RuleChoice = rule.parse().unwrap();
                let target_rows = TargetRows::Logits { data: &target, vocab: VOCAB };
                let random = &mut SeededRandom::new(seed);
                let sources = [DraftSource { rows, scheme }, DraftSource { rows: Some(weights), scheme: other }];
                let draft = match &entries {
                    Some(entries) => DraftRows::new(&sources, Some(entries)),
                    None => DraftRows::single(rows, scheme),
                };
                let verdict = choice.rule(transform).accept(&tree, draft, target_rows, random).unwrap();
                prop_assert_eq!(&verdict.path, &tree.path(verdict.path[verdict.path.len() - 1]));
                prop_assert!((verdict.bonus as usize) < VOCAB);
                prop_assert!(verdict.path[1..].iter().all(|&node| (tree.token(node) as usize) < VOCAB));
                let named_greedy = choice.resolve(&transform) == RuleChoice::Greedy;
                if named_greedy || (transform.is_greedy() && choice.rule(transform).is_lossless()) {
                    assert_greedy(&tree, &target, &verdict)?;
                }
            }
        }
    }

    #[test]
    fn broken_targets_do_not_panic_either(
        tree in tree(),
        target in prop::collection::vec(score(), 10 * VOCAB),
        scheme in scheme(),
        transform in transform(),
    ) {
        let rows = Rows::Logits { data: &target, vocab: VOCAB };
        for rule in RULES {
            let rule = rule.parse::<RuleChoice>().unwrap().rule(transform);
            let draft = DraftRows::single(Some(rows), scheme);
            let verdict = rule.accept(&tree, draft, rows.into(), &mut SeededRandom::new(1)).unwrap();
            prop_assert!((verdict.bonus as usize) < VOCAB);
        }
    }
}
