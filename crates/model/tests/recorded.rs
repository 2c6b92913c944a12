//! A whole greedy step on a GPU, recorded once and replayed, against the CPU's decoding. `GORGON_TEST_DEVICE` names the
//! device; on the CPU there is nothing to record.

use burn::tensor::{Int, Tensor, capture};
use gorgon_core::tree::TokenTree;
use gorgon_kernels::recorded_step::{self, Outcome, TreeTable};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 128,
};
const TOKENS: usize = 20;
const SLOTS: usize = 96;
/// Two guesses for the first token after the root, two after the first of them, one after that.
const PARENTS: [usize; 6] = [0, 0, 0, 1, 1, 3];
const RANKS: [usize; 6] = [0, 0, 1, 0, 1, 0];

fn ids(table: Tensor<1, Int>) -> Vec<i32> {
    table.into_data().try_into_vec().unwrap()
}

/// The CPU's greedy text, one token per pass.
fn plain(model: &Path, prompt: &[u32]) -> Vec<i32> {
    launched(Arc::new(Decoder::load(model, &Compute::cpu(FloatFormat::F32)).unwrap()), prompt)
}

/// The greedy text of steps that are not recorded.
fn launched(decoder: Arc<Decoder>, prompt: &[u32]) -> Vec<i32> {
    let mut target = DecoderTarget::new(decoder, SLOTS, Hooks::none());
    let greatest = |row: &[f32]| row.iter().enumerate().fold(0, |best, (i, v)| if *v > row[best] { i } else { best });
    let output = target.prefill(prompt).unwrap();
    let logits = target.logits(&output.hidden);
    let mut text = vec![greatest(&logits[logits.len() - SHAPE.vocab_size..]) as i32];
    while text.len() < TOKENS {
        let output = target.verify_tree(&TokenTree::root(text[text.len() - 1] as u32)).unwrap();
        target.commit(&[0]).unwrap();
        text.push(greatest(&target.logits(&output.hidden)) as i32);
    }
    text
}

/// Decodes with a recorded step over the tree of `parents`, filled with the top tokens at the last accepted
/// state.
fn recorded(decoder: &Arc<Decoder>, prompt: &[u32], parents: &[usize], ranks: &[usize]) -> Vec<i32> {
    let device = decoder.compute().device();
    let target = RefCell::new(reserved(decoder));
    let output = target.borrow_mut().prefill(prompt).unwrap();
    let logits = decoder.logits_tensor(&output.hidden.narrow(prompt.len() - 1, 1).tensor());
    let mut text = ids(recorded_step::argmax_rows(&logits));
    let tree = TreeTable::new(parents, ranks, device);
    let paths: Vec<Vec<usize>> = (0..parents.len()).map(|node| path(parents, node)).collect();
    let mask = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
    let mut tokens = vec![7; parents.len()];
    tokens[0] = text[0] as u32;
    let pass_table = PassTable::new(&tokens, &mask, prompt.len(), SLOTS, &[None], device);
    let outcome = Outcome::new(&tree, device);
    let kept = Tensor::<1, Int>::zeros(pass_table.table().dims(), device);
    recorded_step::overwrite(&kept, pass_table.table());
    let mut graph = capture(device, || {
        let output = target.borrow_mut().verify_table(&pass_table).unwrap();
        recorded_step::accept(
            &recorded_step::argmax_rows(&decoder.logits_tensor(&output.hidden.tensor())),
            &tree,
            &pass_table,
            &outcome,
        );
        target.borrow().compact(outcome.table());
        let state = decoder.logits_tensor(&output.hidden.tensor().select(1, outcome.last()));
        let guesses = recorded_step::top_rows(&state, 2);
        recorded_step::fill(&Tensor::cat(vec![guesses; tree.longest()], 0), &tree, &pass_table);
        outcome.table().clone()
    });
    assert!(graph.is_hardware(), "the recording fell back");
    recorded_step::overwrite(pass_table.table(), &kept);
    let mut committed = prompt.len();
    while text.len() < TOKENS {
        // SAFETY: everything that the closure borrows lives to the end of this function, on this thread alone.
        let read = ids(unsafe { graph.replay() }.clone());
        let emitted = outcome.emitted(&read);
        assert_eq!(read[0], committed as i32, "the device counts as the host does");
        committed += emitted.len();
        text.extend(emitted);
    }
    text.truncate(TOKENS);
    text
}

/// A target whose cache does not move while a step is recorded.
fn reserved(decoder: &Arc<Decoder>) -> DecoderTarget {
    let mut target = DecoderTarget::new(decoder.clone(), SLOTS, Hooks::none());
    target.reserve(SLOTS);
    target
}

fn path(parents: &[usize], mut node: usize) -> Vec<usize> {
    let mut path = vec![node];
    while node > 0 {
        node = parents[node];
        path.insert(0, node);
    }
    path
}

/// The GPU to test on, in a format.
fn gpu(format: FloatFormat) -> Option<Compute> {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    let compute = Compute::resolve(device.parse().unwrap(), Some(format)).ok().filter(|compute| !compute.is_host());
    if compute.is_none() {
        eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU, or one without {}", format.name());
    }
    compute
}

#[test]
fn a_recorded_step_gives_the_cpus_text() {
    let Some(compute) = gpu(FloatFormat::F32) else { return };
    let model = tempfile::tempdir().unwrap();
    SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    let decoder = Arc::new(Decoder::load(model.path(), &compute).unwrap());
    for prompt in [&[256, 72, 105][..], &[256]] {
        let want = plain(model.path(), prompt);
        assert_eq!(recorded(&decoder, prompt, &[0], &[0]), want, "plain");
        assert_eq!(recorded(&decoder, prompt, &PARENTS, &RANKS), want, "a tree");
    }
}

/// In bf16 texts are the device's own: one row at a time, recorded and launched steps run the same kernels.
#[test]
fn a_recorded_step_in_bf16_gives_the_launched_text() {
    let Some(compute) = gpu(FloatFormat::Bf16) else { return };
    let model = tempfile::tempdir().unwrap();
    SHAPE.write(model.path(), FloatFormat::Bf16, 3).unwrap();
    let decoder = Arc::new(Decoder::load(model.path(), &compute).unwrap());
    let prompt = [256, 72, 105];
    let want = launched(decoder.clone(), &prompt);
    assert_eq!(recorded(&decoder, &prompt, &[0], &[0]), want);
    // Rows in company may be rounded otherwise, so a tree's text is its own.
    assert_eq!(recorded(&decoder, &prompt, &PARENTS, &RANKS).len(), TOKENS);
}
