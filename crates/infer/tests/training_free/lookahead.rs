//! Lookahead decoding, step by step against another implementation.

use crate::by_hand::{ByHand, decoder};
use crate::shared;
use gorgon_core::Token;
use gorgon_core::tree::{NodeKind, TreeChoice};
use gorgon_draft::lookahead::{Lookahead, LookaheadDrafter};
use gorgon_draft::training_free::Method;
use serde_json::Value;

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

fn levels(value: &Value) -> Vec<Vec<Token>> {
    value.as_array().unwrap().iter().map(tokens).collect()
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
        let mut output = vec![];
        let prompt = tokens(&run["prompt"]);
        let mut by_hand = ByHand::new(&decoder, &prompt, &mut drafter);
        for pass in run["warm_up"].as_array().unwrap() {
            let step = by_hand.step(&tree);
            assert_eq!(step.emitted, tokens(&pass["emitted"]));
            assert_eq!(by_hand.drafter.levels(), levels(&pass["levels"]));
            output.extend(step.emitted);
        }
        for want in run["steps"].as_array().unwrap() {
            let before = &want["before"];
            assert_eq!(by_hand.root, before["root"].as_u64().unwrap() as Token);
            assert_eq!(by_hand.drafter.levels(), levels(&before["levels"]));
            let step = by_hand.step(&tree);
            let nodes = step.draft.tree();
            // Guesses are merged, so what counts is that each of them is a path of drafts.
            let mut guess_argmax = vec![];
            for guess in levels(&before["guesses"]) {
                let mut node = 0;
                for token in guess {
                    node = nodes.children(node).find(|&child| nodes.token(child) == token).unwrap();
                    guess_argmax.push(step.argmax[node]);
                }
            }
            if !guess_argmax.is_empty() {
                assert_eq!([&step.argmax[..1], &guess_argmax].concat(), tokens(&want["guess_argmax"]));
            }
            let columns = size("W");
            let probes: Vec<usize> = (0..nodes.len()).filter(|&node| nodes.kind(node) == NodeKind::Probe).collect();
            let newest: Vec<Token> = probes[probes.len() - columns..].iter().map(|&node| step.argmax[node]).collect();
            assert_eq!(newest, tokens(&want["window_argmax"]));
            assert_eq!(step.accepted as u64, want["accepted"].as_u64().unwrap());
            assert_eq!(step.emitted, tokens(&want["emitted"]));
            assert_eq!(by_hand.drafter.levels(), levels(&want["levels_after"]));
            let pool: Vec<(Token, Vec<Vec<Token>>)> = want["pool_after"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| (entry[0].as_u64().unwrap() as Token, levels(&entry[1])))
                .collect();
            let found: Vec<(Token, Vec<Vec<Token>>)> =
                by_hand.drafter.pool().map(|(key, tuples)| (key, tuples.to_vec())).collect();
            assert_eq!(found, pool);
            output.extend(step.emitted);
        }
        assert_eq!(output, tokens(&run["output"]));
    }
}
