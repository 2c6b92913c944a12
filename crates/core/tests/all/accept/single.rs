//! One source is the special case: the same questions to the random source and the same verdicts as ever.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{
    AcceptanceRule, Beta, Cascade, Deferral, DraftRows, DraftSource, Entry, Lossy, RandomSource, Rows, Sampling,
    SamplingScheme, TargetRows, Verdict,
};
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::TokenTree;

use crate::accept::lossless::ALL_SCHEMES;
use crate::accept::reference;
use crate::accept::settings::random_distribution;

const VOCAB: usize = 6;

/// A seeded source that notes every question, bit for bit.
struct Notes {
    random: SeededRandom,
    asked: Vec<Vec<u64>>,
}

impl RandomSource for Notes {
    fn flip(&mut self, probability: f64) -> bool {
        self.asked.push(vec![probability.to_bits()]);
        self.random.flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        self.asked.push(weights.iter().map(|weight| weight.to_bits()).collect());
        self.random.pick(weights)
    }
}

/// A drafted tree with the target's and the drafter's rows.
struct Drafted {
    tree: TokenTree,
    target: Vec<f64>,
    draft: Vec<f64>,
}

/// Up to three children of every node of the first levels, taken by `scheme`; now and then a token that the row gives
/// no mass, or a row with NaN in it.
fn drafted(seed: u64, scheme: SamplingScheme, transform: Transform) -> Drafted {
    let random = &mut SeededRandom::new(seed);
    let mut tree = TokenTree::root(0);
    let (mut target, mut draft, mut prefixes) = (Vec::new(), Vec::new(), vec![Vec::<Token>::new()]);
    for node in 0..15 {
        let Some(prefix) = prefixes.get(node).cloned() else { break };
        let mut q = random_distribution(2 * seed, &prefix, VOCAB);
        if seed % 3 == 1 {
            q[node % VOCAB] = 0.0;
        }
        for token in children(random, scheme, &transform.apply(Row::Probabilities(&q)), seed) {
            if tree.len() < 15 {
                tree.push(node, token);
                prefixes.push([&prefix[..], &[token]].concat());
            }
        }
        if seed % 7 == 3 && node % 2 == 1 {
            q[0] = f64::NAN;
        }
        target.extend(random_distribution(2 * seed + 1, &prefix, VOCAB));
        draft.extend(q);
    }
    Drafted { tree, target, draft }
}

fn children(random: &mut SeededRandom, scheme: SamplingScheme, q: &[f64], seed: u64) -> Vec<Token> {
    let mut tokens = scheme.children(q, 3, random).to_vec();
    if seed.is_multiple_of(5) {
        tokens.push((seed % VOCAB as u64) as Token);
    }
    tokens
}

fn run(rule: &dyn AcceptanceRule, drafted: &Drafted, draft: DraftRows<'_>) -> (Verdict, Vec<Vec<u64>>) {
    let mut random = Notes { random: SeededRandom::new(99), asked: Vec::new() };
    let target = TargetRows::Probabilities { data: &drafted.target, vocab: VOCAB };
    let verdict = rule.accept(&drafted.tree, draft, target, &mut random).unwrap();
    (verdict, random.asked)
}

#[test]
fn one_source_asks_what_it_always_asked() {
    let transforms = [
        Transform::IDENTITY,
        Transform::new(0.6, None, None).unwrap(),
        Transform::new(1.3, Some(4), Some(0.9)).unwrap(),
    ];
    let (mut accepted, mut asked) = (0, 0);
    for (seed, scheme) in (0..120).flat_map(|seed| ALL_SCHEMES.map(|scheme| (seed, scheme))) {
        let transform = transforms[seed as usize % 3];
        let drafted = drafted(seed, scheme, transform);
        let rows = Some(Rows::Probabilities { data: &drafted.draft, vocab: VOCAB });
        let single = DraftRows::single(rows, scheme);
        let (alpha, deferral) = (0.3, Deferral::TokenV3);
        let pairs: [(Box<dyn AcceptanceRule>, Box<dyn AcceptanceRule>); 3] = [
            (Box::new(Sampling { transform }), reference::lossy(transform, 0.0, 1.0)),
            (Box::new(Lossy { alpha, beta: Beta::Fixed(0.9), transform }), reference::lossy(transform, alpha, 0.9)),
            (Box::new(Cascade { deferral, alpha, transform }), reference::cascade(transform, deferral, alpha)),
        ];
        for (number, (rule, reference)) in pairs.iter().enumerate() {
            let expected = run(&**reference, &drafted, single);
            assert_eq!(run(&**rule, &drafted, single), expected, "rule {number}, seed {seed}, {scheme:?}");
            let sources = [DraftSource { rows, scheme }];
            let entries: Vec<Entry> = (1..drafted.tree.len()).map(|child| Entry { child, source: 0 }).collect();
            for draft in [DraftRows::new(&sources, None), DraftRows::new(&sources, Some(&entries))] {
                assert_eq!(run(&**rule, &drafted, draft), expected, "rule {number}, seed {seed}, {scheme:?}");
            }
            accepted += expected.0.path.len() - 1;
            asked += expected.1.len();
        }
    }
    assert!(accepted > 500 && asked > 2000, "{accepted} accepted drafts and {asked} questions say little");
}
