//! Kangaroo: drafts and acceptance against another implementation, and what it keeps of a text.

use crate::shared;
use crate::training_free::by_hand::{ByHand, decoder};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::kangaroo::{KangarooDrafter, KangarooModel};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::Target;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

fn adapter(folder: &Path, decoder: &Arc<Decoder>) -> KangarooModel {
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

fn write(path: &Path, tensors: Vec<(String, Vec<usize>, Vec<f32>)>) {
    let source = |(name, shape, values): (String, Vec<usize>, Vec<f32>)| {
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    tensors::write(path, &tensors.into_iter().map(source).collect::<Vec<_>>()).unwrap();
}

/// The tensors of a file.
struct File(Vec<u8>);

impl File {
    fn read(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        let values = tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        (tensor.shape().to_vec(), values.collect())
    }

    /// Every tensor, with zeros in some.
    fn zeroed(&self, zeroed: impl Fn(&str) -> bool) -> Vec<(String, Vec<usize>, Vec<f32>)> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let one = |name: &str| {
            let (shape, values) = self.read(name);
            let values = if zeroed(name) { vec![0.0; values.len()] } else { values };
            (name.to_owned(), shape, values)
        };
        file.names().into_iter().map(one).collect()
    }
}

/// Layers above the exit that add nothing, and an adapter that adds nothing: every draft is right.
#[test]
fn an_adapter_that_is_the_model_is_always_accepted() {
    let (random, model, heads) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHAPE.write(random.path(), FloatFormat::F32, 3).unwrap();
    let file = File(std::fs::read(random.path().join("model.safetensors")).unwrap());
    let of_base = |name: &str, base: &str| {
        let (shape, values) = file.read(base);
        (format!("{name}.weight"), shape, values)
    };
    let own = |name: &str| of_base(&format!("layers.0.{name}"), &format!("model.layers.0.{name}.weight"));
    let mut adapter_tensors: Vec<_> =
        ["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"].map(own).into();
    let (name, shape, values) = own("self_attn.o_proj");
    adapter_tensors.push((name, shape, vec![0.0; values.len()]));
    adapter_tensors.push(of_base("norm", "model.norm.weight"));
    write(&heads.path().join("model.safetensors"), adapter_tensors);
    let config = json!({"exit_layer": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "draft_stop": 0.0});
    std::fs::write(heads.path().join("config.json"), config.to_string()).unwrap();
    std::fs::copy(random.path().join("config.json"), model.path().join("config.json")).unwrap();
    let above = |name: &str| ["model.layers.1.", "model.layers.2."].iter().any(|layer| name.starts_with(layer));
    let ends = |name: &str| ["o_proj.weight", "down_proj.weight"].iter().any(|end| name.ends_with(end));
    write(&model.path().join("model.safetensors"), file.zeroed(|name| above(name) && ends(name)));
    let decoder = decoder(model.path());
    let mut drafter = KangarooDrafter::new(adapter(heads.path(), &decoder));
    let mut by_hand = ByHand::new(&decoder, &[256, 3, 9], &mut drafter);
    let tree = ChainTree::new(5).unwrap();
    (0..6).for_each(|_| assert_eq!(by_hand.step(&tree).accepted, 5));
}
