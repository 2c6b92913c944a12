//! Lookahead decoding, step by step against another implementation.

use crate::planted::decoder;
use crate::shared;
use crate::training_free::by_hand::{ByHand, Step};
use gorgon_core::Token;
use gorgon_core::tree::{NodeKind, TreeChoice};
use gorgon_draft::lookahead::{Lookahead, LookaheadDrafter};
use gorgon_draft::method::TrainingFreeMethod;
use serde_json::Value;

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

fn levels(value: &Value) -> Vec<Vec<Token>> {
    value.as_array().unwrap().iter().map(tokens).collect()
}

/// The argmaxes at the root and along every guess. Guesses are merged, so each of them is a path of drafts.
fn along_guesses(step: &Step, guesses: &[Vec<Token>]) -> Vec<Vec<Token>> {
    let nodes = step.draft.tree();
    let along = |guess: &Vec<Token>| {
        let (mut node, mut found) = (0, vec![step.argmax[0]]);
        for &token in guess {
            node = nodes.children(node).find(|&child| nodes.token(child) == token).unwrap();
            found.push(step.argmax[node]);
        }
        found
    };
    guesses.iter().map(along).collect()
}

/// The argmaxes at the window's last level.
fn newest(step: &Step, columns: usize) -> Vec<Token> {
    let nodes = step.draft.tree();
    let probes: Vec<usize> = (0..nodes.len()).filter(|&node| nodes.kind(node) == NodeKind::Probe).collect();
    probes[probes.len() - columns..].iter().map(|&node| step.argmax[node]).collect()
}

fn check(by_hand: &ByHand<'_, LookaheadDrafter>, step: &Step, columns: usize, want: &Value) {
    assert_eq!(along_guesses(step, &levels(&want["before"]["guesses"])), levels(&want["guess_argmax"]));
    assert_eq!(newest(step, columns), tokens(&want["window_argmax"]));
    assert_eq!(step.accepted as u64, want["accepted"].as_u64().unwrap());
    assert_eq!(step.emitted, tokens(&want["emitted"]));
    assert_eq!(by_hand.drafter.levels(), levels(&want["levels_after"]));
    let entry = |entry: &Value| (entry[0].as_u64().unwrap() as Token, levels(&entry[1]));
    let pool: Vec<(Token, Vec<Vec<Token>>)> = want["pool_after"].as_array().unwrap().iter().map(entry).collect();
    let found: Vec<(Token, Vec<Vec<Token>>)> = by_hand.drafter.pool().map(|(key, all)| (key, all.to_vec())).collect();
    assert_eq!(found, pool);
}

#[test]
fn windows_pools_and_texts_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/lookahead", "lookahead") else { return };
    let decoder = decoder(&root.join("model"));
    let traces: Value = serde_json::from_slice(&std::fs::read(root.join("traces.json")).unwrap()).unwrap();
    for run in traces["runs"].as_array().unwrap() {
        let size = |key: &str| run[key].as_u64().unwrap() as usize;
        let settings = Lookahead { columns: size("W"), n: size("N"), guesses: size("G"), window: false };
        let TreeChoice::Own(tree) = settings.default_tree() else { panic!("an own tree") };
        let mut drafter = LookaheadDrafter::new(settings);
        let mut by_hand = ByHand::new(&decoder, &tokens(&run["prompt"]), &mut drafter);
        let mut output = vec![];
        for pass in run["warm_up"].as_array().unwrap() {
            let step = by_hand.step(&tree);
            assert_eq!(step.emitted, tokens(&pass["emitted"]));
            assert_eq!(by_hand.drafter.levels(), levels(&pass["levels"]));
            output.extend(step.emitted);
        }
        for want in run["steps"].as_array().unwrap() {
            assert_eq!(by_hand.root, want["before"]["root"].as_u64().unwrap() as Token);
            assert_eq!(by_hand.drafter.levels(), levels(&want["before"]["levels"]));
            let step = by_hand.step(&tree);
            check(&by_hand, &step, size("W"), want);
            output.extend(step.emitted);
        }
        assert_eq!(output, tokens(&run["output"]));
    }
}
