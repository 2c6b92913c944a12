//! Kangaroo: drafts and acceptance against another implementation, and what it keeps of a text.

use crate::planted::{self, Values, decoder};
use crate::shared;
use crate::training_free::by_hand::ByHand;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::kangaroo::{KangarooDrafter, KangarooModel};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::pass::SkippedSublayers;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::Target;
use gorgon_model::weights::Checkpoint;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

pub fn adapter(folder: &Path, decoder: &Arc<Decoder>) -> KangarooModel {
    KangarooModel::load(&HeadsFolder::open(folder).unwrap(), decoder.clone()).unwrap()
}

#[test]
fn drafts_and_acceptance_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "kangaroo") else { return };
    let (decoder, folder) = (decoder(&root.join("model")), root.join("kangaroo"));
    let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let run = &expected["run"];
    // The folder names no threshold: the paper's serves.
    let model = adapter(&folder, &decoder);
    assert_eq!((model.exit_layer(), model.stop()), (2, 0.6));
    let mut drafter = KangarooDrafter::new(model.stopping_at(run["eta"].as_f64().unwrap()));
    let tree = ChainTree::new(run["gamma"].as_u64().unwrap() as usize).unwrap();
    let mut by_hand = ByHand::new(&decoder, &tokens(&run["prompt"]), &mut drafter);
    let (mut output, mut whole) = (vec![], 0);
    for want in run["steps"].as_array().unwrap() {
        let step = by_hand.step(&tree);
        assert_eq!(step.draft.tree().tokens()[1..], tokens(&want["drafts"]));
        let sure = want["confidence"].as_array().unwrap();
        assert_eq!(step.draft.probabilities().len(), sure.len() + 1);
        for (found, want) in step.draft.probabilities()[1..].iter().zip(sure) {
            assert!((found - want.as_f64().unwrap()).abs() < 1e-4, "{found} {want}");
        }
        assert_eq!(step.accepted as u64, want["accepted"].as_u64().unwrap());
        assert_eq!(step.emitted.last().copied(), want["bonus"].as_u64().map(|token| token as Token));
        whole += usize::from(step.accepted + 1 == step.draft.tree().len());
        output.extend(step.emitted);
    }
    let want = tokens(&run["output"]);
    assert_eq!(output[..want.len()], want);
    assert_eq!(Some(whole as u64), run["steps_with_all_accepted"].as_u64());
}

/// After any steps, accepted whole or in part, the drafter has what one that reads the text at once has.
#[test]
fn it_keeps_what_reading_the_text_gives() {
    let Some(root) = shared::shared("fixtures/early_exit", "kangaroo") else { return };
    let (decoder, folder) = (decoder(&root.join("model")), root.join("kangaroo"));
    let model = Arc::new(adapter(&folder, &decoder).stopping_at(0.1));
    let prompt: Vec<Token> = (1..30).map(|i| (i * 7) % 200).collect();
    let trees: [Box<dyn TreeBuilder>; 3] = [
        Box::new(ChainTree::new(6).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
    ];
    for tree in &trees {
        let mut drafter = KangarooDrafter::sharing(model.clone());
        let mut by_hand = ByHand::new(&decoder, &prompt, &mut drafter);
        let mut text = prompt.clone();
        let first = by_hand.step(tree.as_ref());
        text.extend(&first.emitted);
        for _ in 0..8 {
            let step = by_hand.step(tree.as_ref());
            let mut fresh = KangarooDrafter::sharing(model.clone());
            let again = ByHand::new(&decoder, &text, &mut fresh).step(tree.as_ref());
            assert_eq!(step.draft.tree().tokens(), again.draft.tree().tokens());
            text.extend(&step.emitted);
            assert_eq!(by_hand.drafter.cached(), text.len() - 1);
        }
        // Back in the text, it drafts what it drafted there.
        let (&root, before) = prompt.split_last().unwrap();
        by_hand.target.truncate(before.len());
        assert!(by_hand.drafter.truncate(before.len()));
        by_hand.root = root;
        let again = by_hand.step(tree.as_ref());
        assert_eq!((again.draft.tree().tokens(), again.accepted), (first.draft.tree().tokens(), first.accepted));
    }
}

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 3,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 96,
};

/// Writes an adapter on the first layer of a model in a folder, with that layer's own attention, but for what the
/// attention adds: that much of it.
pub fn write_adapter(model: &Path, heads: &Path, shape: &LlamaShape, share: f32) {
    let checkpoint = Checkpoint::open(model).unwrap();
    let of_base = |name: &str, base: &str| {
        let (shape, values) = (checkpoint.entries()[base].shape.clone(), checkpoint.read_all(base).unwrap());
        (format!("{name}.weight"), shape, values)
    };
    let own = |name: &str| of_base(&format!("layers.0.{name}"), &format!("model.layers.0.{name}.weight"));
    let mut tensors: Vec<Values> =
        ["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"].map(own).into();
    let (name, size, values) = own("self_attn.o_proj");
    tensors.push((name, size, values.iter().map(|value| share * value).collect()));
    tensors.push(of_base("norm", "model.norm.weight"));
    planted::write(heads, tensors);
    let (all, kv) = (shape.heads, shape.kv_heads);
    let config = json!({"exit_layer": 1, "num_attention_heads": all, "num_key_value_heads": kv, "draft_stop": 0.0});
    std::fs::write(heads.join("config.json"), config.to_string()).unwrap();
}

/// Layers above the exit that add nothing, and an adapter that adds nothing: every draft is right.
#[test]
fn an_adapter_that_is_the_model_is_always_accepted() {
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    write_adapter(model.path(), heads.path(), &SHAPE, 0.0);
    planted::silence(model.path(), &SkippedSublayers::new(SHAPE.layers, &[1, 2], &[1, 2]).unwrap());
    let decoder = decoder(model.path());
    let mut drafter = KangarooDrafter::new(adapter(heads.path(), &decoder));
    let mut by_hand = ByHand::new(&decoder, &[256, 3, 9], &mut drafter);
    let tree = ChainTree::new(5).unwrap();
    (0..6).for_each(|_| assert_eq!(by_hand.step(&tree).accepted, 5));
}
