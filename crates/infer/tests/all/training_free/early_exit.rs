//! Early exit: drafts and acceptance against another implementation, and verification from kept states.

use crate::planted::decoder;
use crate::shared;
use crate::training_free::by_hand::{ByHand, cached, read_at_once};
use gorgon_core::Token;
use gorgon_core::dist::Row;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::early_exit::EarlyExitDrafter;
use gorgon_draft::skip::{SkipDrafter, Sublayers};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::{DecoderTarget, Target};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Tokens of the target's own text in the fixtures.
const TEXT: usize = 48;

/// The text that goes on from some tokens.
fn whole<D: Drafter>(mut output: Vec<Token>, by_hand: &mut ByHand<'_, D>, tree: &dyn TreeBuilder) -> Vec<Token> {
    while output.len() < TEXT {
        output.extend(by_hand.step(tree).emitted);
    }
    output.truncate(TEXT);
    output
}

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

#[test]
fn drafts_and_acceptance_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let decoder = decoder(&root.join("model"));
    let exits: Value = serde_json::from_slice(&std::fs::read(root.join("exits.json")).unwrap()).unwrap();
    let greedy = File::open(&root.join("exits.safetensors")).tokens("greedy");
    let mut runs = 0;
    for run in exits["runs"].as_array().unwrap().iter().filter(|run| run["kind"] == "exit") {
        let mut drafter = EarlyExitDrafter::new(run["layers"].as_u64().unwrap() as usize);
        let tree = ChainTree::new(run["gamma"].as_u64().unwrap() as usize).unwrap();
        let mut by_hand = ByHand::new(&decoder, &tokens(&run["prompt"]), &mut drafter);
        let mut output = vec![];
        for want in run["steps"].as_array().unwrap() {
            let step = by_hand.step(&tree);
            assert_eq!(step.draft.tree().tokens()[1..], tokens(&want["drafts"]));
            assert_eq!(step.accepted as u64, want["accepted"].as_u64().unwrap());
            assert_eq!(step.emitted.last().copied(), want["bonus"].as_u64().map(|token| token as Token));
            output.extend(step.emitted);
        }
        let want = tokens(&run["output"]);
        assert_eq!(output[..want.len()], want);
        assert_eq!(whole(output, &mut by_hand, &tree), greedy);
        runs += 1;
    }
    assert!(runs > 1, "the fixtures hold runs of several depths");
}

/// Sub-layers of the fixtures.
fn sublayers(skip: &Value) -> Sublayers {
    serde_json::from_value(serde_json::json!({"attention": skip["attention"], "mlp": skip["mlp"]})).unwrap()
}

#[test]
fn drafts_without_sublayers_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let decoder = decoder(&root.join("model"));
    let exits: Value = serde_json::from_slice(&std::fs::read(root.join("exits.json")).unwrap()).unwrap();
    let greedy = File::open(&root.join("exits.safetensors")).tokens("greedy");
    let mut runs = 0;
    for run in exits["runs"].as_array().unwrap().iter().filter(|run| run["kind"] == "skip") {
        let mut drafter = SkipDrafter::new(
            "skip".into(),
            sublayers(&exits["skips"][run["skip"].as_u64().unwrap() as usize]),
            Some(0.0),
        );
        let tree = ChainTree::new(run["gamma"].as_u64().unwrap() as usize).unwrap();
        let mut by_hand = ByHand::new(&decoder, &tokens(&run["prompt"]), &mut drafter);
        let mut output = vec![];
        for want in run["steps"].as_array().unwrap() {
            let step = by_hand.step(&tree);
            assert_eq!(step.draft.tree().tokens()[1..], tokens(&want["drafts"]));
            assert_eq!(step.accepted as u64, want["accepted"].as_u64().unwrap());
            output.extend(step.emitted);
        }
        let want = tokens(&run["output"]);
        assert_eq!(output[..want.len()], want);
        assert_eq!(whole(output, &mut by_hand, &tree), greedy);
        runs += 1;
    }
    assert!(runs > 0, "the fixtures hold runs with sub-layers left out");
}

/// The tensors of a file.
struct File(Vec<u8>);

impl File {
    fn open(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let data = file.tensor(name).unwrap().data();
        data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn tokens(&self, name: &str) -> Vec<Token> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let data = file.tensor(name).unwrap().data();
        data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()) as Token).collect()
    }
}

fn close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let far = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 1e-4, "{what}: {far}");
}

/// Residual streams before and after every layer, and the logits of an exit behind each.
#[test]
fn states_and_logits_of_exits_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let (decoder, file) = (decoder(&root.join("model")), File::open(&root.join("exits.safetensors")));
    let (layers, ids) = (decoder.config().layers, file.tokens("input_ids"));
    let mut target =
        DecoderTarget::new(decoder.clone(), ids.len(), Hooks::new((0..=layers).collect(), layers).unwrap());
    let mask = AttentionMask::Causal { rows: ids.len() };
    let hooks = target.verify(&PassPlan::of_tokens(&ids, &mask)).unwrap().hooks;
    let streams: Vec<f32> = hooks.into_iter().flat_map(|states| states.into_values().into_vec()).collect();
    close(&streams, &file.floats("hidden_after"), "hidden_after");
    for exit in 1..=layers {
        let mut target = DecoderTarget::new(decoder.clone(), ids.len(), Hooks::none());
        let output = target.verify(&PassPlan { layers: Some(0..exit), ..PassPlan::of_tokens(&ids, &mask) }).unwrap();
        let logits = target.logits(&output.hidden);
        close(&logits, &file.floats(&format!("logits.E{exit}")), &format!("exit {exit}"));
    }
}

/// Logits of another implementation: over a prompt of its own, and over keys and values of the whole model.
#[test]
fn logits_without_sublayers_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let decoder = decoder(&root.join("model"));
    let exits: Value = serde_json::from_slice(&std::fs::read(root.join("exits.json")).unwrap()).unwrap();
    let file = File::open(&root.join("exits.safetensors"));
    let ids = file.tokens("input_ids");
    for (number, skip) in exits["skips"].as_array().unwrap().iter().enumerate() {
        let skipped = sublayers(skip).of(decoder.config().layers).unwrap();
        let over = skip["rows_over_full_cache"].as_u64().unwrap() as usize;
        for (name, before) in [("logits", 0), ("logits_over_full_cache", ids.len() - over)] {
            let mut target = DecoderTarget::new(decoder.clone(), ids.len(), Hooks::none());
            if before > 0 {
                target.prefill(&ids[..before]).unwrap();
            }
            let rows = &ids[before..];
            let mask = AttentionMask::after(0, (0..rows.len()).map(|row| (0..=row).collect::<Vec<_>>()));
            let plan = PassPlan { skipped: Some(&skipped), ..PassPlan::of_tokens(rows, &mask) };
            let output = target.verify(&plan).unwrap();
            let got = target.logits(&output.hidden);
            close(&got, &file.floats(&format!("skip{number}.{name}")), &format!("skip {number}, {name}"));
            assert!(target.commit(&[0]).is_err(), "rows without all sub-layers are never committed");
        }
    }
}

/// Drafts of the whole model are what it says: all are accepted, in every step.
#[test]
fn drafts_of_the_whole_model_are_accepted() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let decoder = decoder(&root.join("model"));
    let (layers, nothing) = (decoder.config().layers, Sublayers::default());
    all_accepted(&decoder, &mut EarlyExitDrafter::new(layers));
    all_accepted(&decoder, &mut SkipDrafter::new("skip".into(), nothing, Some(0.0)));
}

fn all_accepted<D: Drafter>(decoder: &Arc<Decoder>, drafter: &mut D) {
    let prompt: Vec<Token> = (1..40).map(|i| (i * 7) % 200).collect();
    let mut by_hand = ByHand::new(decoder, &prompt, drafter);
    for _ in 0..8 {
        let step = by_hand.step(&ChainTree::new(5).unwrap());
        assert_eq!((step.draft.tree().len(), step.accepted), (6, 5));
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Verification from kept states is the whole pass, bit for bit: rows, logits and what the cache holds afterwards.
#[test]
fn resumed_verification_is_a_whole_pass() {
    let Some(root) = shared::shared("fixtures/early_exit", "early_exit") else { return };
    let decoder = decoder(&root.join("model"));
    let prompt: Vec<Token> = (1..40).map(|i| (i * 7) % 200).collect();
    let trees: Vec<Box<dyn TreeBuilder>> = vec![
        Box::new(ChainTree::new(6).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(FixedTree::new(TreeShape::from_json("[[0], [1], [0, 0], [0, 2], [1, 0], [0, 0, 1]]").unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
    ];
    for layers in 1..decoder.config().layers {
        for tree in &trees {
            let mut drafter = EarlyExitDrafter::new(layers);
            let mut by_hand = ByHand::new(&decoder, &prompt, &mut drafter);
            let mut text = prompt.clone();
            for _ in 0..4 {
                let before = text.len() - 1;
                let step = by_hand.step(tree.as_ref());
                let mut whole = DecoderTarget::new(decoder.clone(), 256, Hooks::none());
                whole.prefill(&text[..before]).unwrap();
                let output = whole.verify_tree(step.draft.tree()).unwrap();
                let logits = whole.logits(&output.hidden);
                assert_eq!(bits(&step.hidden), bits(output.hidden.on_host().unwrap()), "{layers} layers");
                assert_eq!(bits(&step.logits), bits(&logits), "{layers} layers");
                let rows = logits.chunks_exact(whole.vocab_size());
                let argmax: Vec<Token> = rows.map(|row| Row::Logits(row).argmax() as Token).collect();
                assert_eq!(step.argmax, argmax, "{layers} layers");
                text.extend(&step.emitted);
                assert_eq!(
                    cached(&mut by_hand.target),
                    read_at_once(&decoder, &text[..text.len() - 1]),
                    "{layers} layers"
                );
            }
        }
    }
}
