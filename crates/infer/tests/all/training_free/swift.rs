//! SWIFT: the search against a slow definition, its end at a planted optimum, and what it leaves alone.

use crate::composed::models::{generate, plain, rule};
use crate::planted;
use crate::training_free::by_hand::ByHand;
use gorgon_core::Token;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::{OwnTree, TreeBuilder, TreeChoice};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::swift::{Swift, SwiftDrafter};
use gorgon_draft::training_free::TrainingFreeMethod;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{PassPlan, SkippedSublayers};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 5,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 512,
};
const PROMPT: [Token; 7] = [256, 3, 9, 40, 7, 77, 5];
/// Two of the six sub-layers of three layers.
const METHOD: Swift = Swift { share: 40, seed: 3, state: None };

/// A random model; what layers 1 and 3 attend to adds nothing where `is_planted` says so.
fn model(is_planted: bool) -> Arc<Decoder> {
    let silent: &[usize] = if is_planted { &[1, 3] } else { &[] };
    planted::random(SHAPE, 3, &SkippedSublayers::new(SHAPE.layers, silent, &[]).unwrap())
}

/// The score by its definition: the sub-layers left out over the whole model's cache of the prompt, token by token.
fn score(decoder: &Arc<Decoder>, prompt: &[Token], answer: &[Token], set: &SkippedSublayers) -> f64 {
    let mut target = DecoderTarget::new(decoder.clone(), 512, Hooks::none());
    target.prefill(prompt).unwrap();
    let mut right = 0;
    for (row, pair) in answer[..33].windows(2).enumerate() {
        let mask = AttentionMask::after(row, [(0..=row).collect::<Vec<_>>()]);
        let plan = PassPlan { skipped: Some(set), ..PassPlan::of_tokens(&pair[..1], &mask) };
        let hidden = target.verify(&plan).unwrap().hidden;
        right += usize::from(Row::Logits(&target.logits(&hidden)).argmax() as Token == pair[1]);
    }
    f64::from(right as u32) / 32.0
}

fn answer(by_hand: &mut ByHand<'_, SwiftDrafter>, tokens: usize) -> Vec<Token> {
    let tree = OwnTree::new(12, 6).unwrap();
    let mut text = vec![by_hand.root];
    while text.len() < tokens {
        text.extend(by_hand.step(&tree).emitted);
    }
    text
}

#[test]
fn scores_are_those_of_the_definition() {
    let decoder = model(false);
    let mut drafter = SwiftDrafter::new(METHOD);
    let mut by_hand = ByHand::new(&decoder, &PROMPT, &mut drafter);
    let (before, root) = PROMPT.split_at(PROMPT.len() - 1);
    let text = answer(&mut by_hand, 60);
    assert_eq!(text[0], root[0]);
    let search = by_hand.drafter.search().unwrap();
    assert!(search.tries() > 0);
    assert_eq!(search.score(), Some(score(&decoder, before, &text, search.left_out())));
}

/// Equal seeds try equal sets in the same order, and nothing of them is in the text or in the target's cache.
#[test]
fn a_seed_decides_on_the_search_and_not_on_the_text() {
    let decoder = model(false);
    let run = |seed| {
        let mut drafter = SwiftDrafter::new(Swift { seed, ..METHOD });
        let mut by_hand = ByHand::new(&decoder, &PROMPT, &mut drafter);
        let text = answer(&mut by_hand, 120);
        let length = by_hand.target.len();
        drop(by_hand);
        let search = drafter.search().unwrap();
        (text, length, search.tries(), search.score(), search.left_out().clone())
    };
    assert_eq!(run(1), run(1));
    let mut plain = DecoderTarget::new(decoder.clone(), 512, Hooks::none());
    let mut hidden = plain.prefill(&PROMPT).unwrap().hidden;
    let (text, ..) = run(2);
    for &token in &text[1..] {
        let row = hidden.narrow(hidden.rows() - 1, 1);
        assert_eq!(Row::Logits(&plain.logits(&row)).argmax() as Token, token);
        hidden = plain.extend(&[token]).unwrap().hidden;
    }
}

/// While sets are tried and exchanged, text is plain text, at any temperature.
#[test]
fn a_running_search_changes_no_text() {
    let (decoder, tree) = (model(false), OwnTree::new(12, 6).unwrap());
    for (name, temperature) in [("greedy", 0.0), ("coupled", 0.4), ("coupled", 0.8), ("coupled", 1.2)] {
        let (rule, _) = rule(name, Transform::new(temperature, None, None).unwrap());
        let text = plain(&decoder, rule.as_ref(), &PROMPT, 120);
        let mut drafter = SwiftDrafter::new(METHOD);
        let ways = (&tree as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
        let found = generate(&decoder, &mut drafter, ways, (&PROMPT, 120), &mut SeededRandom::new(1));
        assert_eq!(found.ids, text, "{name} at {temperature}");
        let search = drafter.search().unwrap();
        assert!(search.tries() > 20 && !search.has_ended(), "{name} at {temperature}: {} tries", search.tries());
    }
}

/// Two attentions that add nothing are left out in the end, and the search ends with them; it survives answers.
#[test]
fn the_search_ends_at_a_planted_set() {
    let decoder = model(true);
    let mut drafter = SwiftDrafter::new(METHOD);
    for prompt in [PROMPT, [256, 1, 2, 3, 4, 5, 6], [256, 90, 80, 70, 60, 50, 40], [256, 11, 22, 33, 44, 55, 66]] {
        let tries = drafter.search().map_or(0, |search| search.tries());
        drafter.reset();
        answer(&mut ByHand::new(&decoder, &prompt, &mut drafter), 160);
        assert!(drafter.search().unwrap().tries() >= tries);
        if drafter.search().unwrap().has_ended() {
            break;
        }
    }
    let search = drafter.search().unwrap();
    assert!(search.has_ended(), "{:?} after {} tries", search.score(), search.tries());
    assert_eq!(search.left_out().lists(), [vec![1, 3], vec![]]);
    // The reduced model is the model: whole paths are accepted.
    let mut by_hand = ByHand::new(&decoder, &PROMPT, &mut drafter);
    for _ in 0..10 {
        let step = by_hand.step(&OwnTree::new(12, 6).unwrap());
        let deepest = step.draft.tree().depths().iter().copied().max().unwrap();
        assert_eq!(step.accepted, deepest);
    }
}

/// A later process goes on with the stored search; the text is the same.
#[test]
fn a_stored_search_goes_on() {
    let (decoder, dir) = (model(false), tempfile::tempdir().unwrap());
    let arguments = format!("40,seed=3,state={}", dir.path().join("swift.json").display());
    let run = |tokens: usize| {
        let mut drafter = SwiftDrafter::new(Swift::parse(&arguments).unwrap());
        let text = answer(&mut ByHand::new(&decoder, &PROMPT, &mut drafter), tokens);
        let search = drafter.search().unwrap();
        (text, search.tries(), search.left_out().clone())
    };
    let (first, tries, set) = run(80);
    assert!(tries > 0);
    // An answer too short to be searched on: the set is the one that was found before.
    let (short, same, kept) = run(20);
    assert_eq!((same, kept), (tries, set));
    assert_eq!(short[..20], first[..20]);
    let (second, more, _) = run(80);
    assert!(more > tries);
    assert_eq!(first[..80], second[..80]);
}

#[test]
fn trees_keep_their_budget() {
    let TreeChoice::Own(own) = METHOD.default_tree() else { panic!("{}", METHOD.default_tree()) };
    assert_eq!((own.nodes(), own.depth()), (64, 25));
    let decoder = model(true);
    let mut drafter = SwiftDrafter::new(METHOD);
    let mut by_hand = ByHand::new(&decoder, &PROMPT, &mut drafter);
    for _ in 0..5 {
        let step = by_hand.step(&own);
        let tree = step.draft.tree();
        assert!(tree.len() <= own.max_nodes() && tree.depths().iter().all(|&depth| depth <= 25));
        // One node of each depth has children.
        for depth in 0..25 {
            let parents: std::collections::BTreeSet<usize> = (1..tree.len())
                .filter(|&node| tree.depths()[node] == depth + 1)
                .map(|node| tree.parents()[node])
                .collect();
            assert!(parents.len() <= 1);
        }
    }
}
