//! Layers on several devices against the same layers on one, bit for bit. `GORGON_TEST_DEVICE` names the device (default
//! `cpu`); with `cuda` and two devices the layers are on both, otherwise on stages of the one that there is.

use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::device::{Compute, FloatFormat, cuda_devices};
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{PassOutput, PassPlan};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target, read};
use std::path::Path;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 64,
    intermediate_size: 96,
    layers: 4,
    heads: 4,
    kv_heads: 2,
    vocab_size: 333,
    max_positions: 128,
};

fn whole() -> Compute {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    Compute::resolve(device.parse().unwrap(), Some(FloatFormat::F32)).unwrap()
}

/// Two or more parts of the layers.
fn split(parts: usize) -> Compute {
    let whole = whole();
    if whole.is_host() || cuda_devices() < parts {
        return whole.in_stages(parts);
    }
    let names: Vec<String> = (0..parts).map(|index| index.to_string()).collect();
    let name = format!("cuda:{}", names.join("+"));
    let split = Compute::resolve(name.parse().unwrap(), Some(FloatFormat::F32)).unwrap();
    assert!(split.is_split() && split.devices()[0] != split.devices()[1]);
    split
}

fn target(dir: &Path, compute: &Compute) -> DecoderTarget {
    let hooks = Hooks::new(vec![1, 3, 4], 4).unwrap();
    DecoderTarget::new(Arc::new(Decoder::load(dir, compute).unwrap()), 96, hooks)
}

fn prompt(seed: usize) -> Vec<u32> {
    (0..21).map(|i| ((i * 53 + 5 * seed) % 333) as u32).collect()
}

/// Everything that a pass hands out, as numbers.
fn numbers(target: &DecoderTarget, output: &PassOutput) -> Vec<Vec<f32>> {
    let logits = target.logits(&output.hidden).to_vec();
    let hooks = output.hooks.iter().map(|states| read(states.tensor()));
    [logits, read(output.hidden.tensor())].into_iter().chain(hooks).collect()
}

/// A prompt, trees of which a path is kept that has to be moved together, and lone tokens.
fn alone(dir: &Path, compute: &Compute) -> Vec<Vec<f32>> {
    let mut target = target(dir, compute);
    let output = target.prefill(&prompt(1)).unwrap();
    let mut found = numbers(&target, &output);
    for step in 0..2 {
        let mut tree = TokenTree::root(7 + step);
        let first = tree.push(0, 11);
        tree.push(0, 12);
        let below = tree.push(first, 13);
        tree.push(below, 14);
        let output = target.verify_tree(&tree).unwrap();
        found.extend(numbers(&target, &output));
        target.commit(&[0, 1, 3]).unwrap();
        let output = target.verify_tree(&TokenTree::root(40 + step)).unwrap();
        found.extend(numbers(&target, &output));
        target.commit(&[0]).unwrap();
    }
    let mut copy = target.copied(20);
    let output = copy.verify_tree(&TokenTree::root(9)).unwrap();
    found.push(copy.logits(&output.hidden).to_vec());
    found
}

/// Two sequences in one pass.
fn together(dir: &Path, compute: &Compute) -> Vec<Vec<f32>> {
    let made = target(dir, compute);
    let (mut first, mut second) = (made.copied(0), made.copied(0));
    first.prefill(&prompt(2)).unwrap();
    second.prefill(&prompt(3)[..9]).unwrap();
    let mask = AttentionMask::Causal { rows: 3 };
    let mut group =
        [(&mut first, PassPlan::of_tokens(&[1, 2, 3], &mask)), (&mut second, PassPlan::of_tokens(&[4, 5, 6], &mask))];
    let output = DecoderTarget::verify_together(&mut group).unwrap();
    numbers(&first, &output)
}

#[test]
fn layers_on_several_devices_equal_those_on_one() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let (one, batch) = (alone(dir.path(), &whole()), together(dir.path(), &whole()));
    for parts in [2, 3] {
        let compute = split(parts);
        let stages = Decoder::load(dir.path(), &compute).unwrap().stages().len();
        assert_eq!(stages, parts);
        assert_eq!(alone(dir.path(), &compute), one, "{parts} devices");
        assert_eq!(together(dir.path(), &compute), batch, "{parts} devices, two sequences");
    }
}

#[test]
fn more_devices_than_layers_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let error = Decoder::load(dir.path(), &whole().in_stages(5)).unwrap_err();
    assert!(matches!(error, ModelError::Split { devices: 5, layers: 4 }), "{error}");
}
