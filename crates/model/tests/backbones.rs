//! Backbones against values of another implementation, on the device that `GORGON_TEST_DEVICE` names (default `cpu`).

#[path = "../../core/tests/shared/mod.rs"]
mod shared;

use gorgon_core::tree::TokenTree;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{ActivationBits, Compute, DraftWeights, FloatFormat, IntegerWeights, Products, Weights};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_model::weights::{Checkpoint, Entry};
use gorgon_runs::tensors::{Source, write_f32};
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of all reference backbones, with their names.
fn backbones(test: &str) -> Vec<(String, PathBuf)> {
    let Some(root) = shared::shared("fixtures/backbones", test) else { return vec![] };
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = folders
        .filter(|folder| folder.join("expected.safetensors").is_file())
        .map(|folder| (folder.file_name().unwrap().to_string_lossy().into_owned(), folder))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "the folder of reference backbones is empty");
    found
}

fn compute(format: FloatFormat) -> Compute {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    Compute::resolve(device.parse().unwrap(), Some(format)).unwrap()
}

fn target(dir: &Path, format: FloatFormat, capacity: usize) -> DecoderTarget {
    let decoder = Decoder::load(dir, &compute(format)).unwrap();
    DecoderTarget::new(Arc::new(decoder), capacity, Hooks::none())
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn ids(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

/// Largest and mean absolute difference.
fn differences(a: &[f32], b: &[f32]) -> (f32, f32) {
    assert_eq!(a.len(), b.len());
    let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    (each.clone().fold(0.0, f32::max), each.sum::<f32>() / a.len() as f32)
}

fn argmax(row: &[f32]) -> u32 {
    let mut best = 0;
    for (i, v) in row.iter().enumerate() {
        if *v > row[best] {
            best = i;
        }
    }
    best as u32
}

fn last_row(logits: &[f32], vocab: usize) -> &[f32] {
    &logits[logits.len() - vocab..]
}

#[test]
fn hidden_states_logits_and_greedy_continuations() {
    for (name, dir) in backbones("backbones") {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        let mut target = target(&dir, FloatFormat::F32, 128);
        let vocab = target.decoder().config().vocab_size;
        for case in ["seq", "batch0", "batch1"] {
            target.reset();
            let output = target.prefill(&ids(&expected, &format!("{case}.input_ids"))).unwrap();
            let logits = target.logits(&output.hidden);
            let hidden = read(output.hidden.tensor());
            let (worst, mean) = differences(&hidden, &floats(&expected, &format!("{case}.hidden")));
            assert!(worst < 1e-3 && mean < 1e-5, "{name} {case} hidden: {worst:e}, mean {mean:e}");
            let (worst, mean) = differences(&logits, &floats(&expected, &format!("{case}.logits")));
            assert!(worst < 1e-3 && mean < 1e-4, "{name} {case} logits: {worst:e}, mean {mean:e}");

            let want = ids(&expected, &format!("{case}.greedy"));
            let mut got = vec![argmax(last_row(&logits, vocab))];
            while got.len() < want.len() {
                let output = target.verify_tree(&TokenTree::root(*got.last().unwrap())).unwrap();
                target.commit(&[0]).unwrap();
                got.push(argmax(&target.logits(&output.hidden)));
            }
            assert_eq!(got, want, "{name} {case} greedy");
        }
    }
}

/// A tree of `nodes` nodes with branches, runs and gaps, over the vocabulary.
fn tree(nodes: usize, vocab: usize) -> TokenTree {
    let mut tree = TokenTree::root(17 % vocab as u32);
    for node in 1..nodes {
        let parent = if node % 3 == 0 { node - 1 } else { (node * 7 + 3) % node };
        tree.push(parent, ((node * 37 + 11) % vocab) as u32);
    }
    tree
}

/// The logits at the end of a node's path, decoded one token at a time.
fn decode_path(target: &mut DecoderTarget, tree: &TokenTree, node: usize) -> Vec<f32> {
    let start = target.len();
    let mut logits = vec![];
    for &ancestor in &tree.path(node) {
        let output = target.verify_tree(&TokenTree::root(tree.token(ancestor))).unwrap();
        target.commit(&[0]).unwrap();
        logits = target.logits(&output.hidden).to_vec();
    }
    target.truncate(start);
    logits
}

/// Every number format in which the CPU computes.
fn formats_of_the_cpu() -> Vec<Compute> {
    use ActivationBits::{Eight, Sixteen};
    let cpu = || Compute::cpu(FloatFormat::F32);
    let products = cpu().with_products(Products::Bf16).inspect_err(|error| eprintln!("SKIPPED: {error}"));
    let integers = [(Weights::Int8, Eight), (Weights::Int8, Sixteen), (Weights::Int4, Eight)];
    let rounded = integers.map(|(weights, bits)| {
        let integers = IntegerWeights { weights, activation_bits: Some(bits), ..IntegerWeights::STORED };
        cpu().with_integers(integers).unwrap()
    });
    [cpu(), Compute::cpu(FloatFormat::F16)].into_iter().chain(rounded).chain(products).collect()
}

/// Verifying a tree equals one plain forward per root-to-node path: on the CPU bit for bit, for every number of nodes.
fn check_trees(name: &str, dir: &Path) {
    let exact = compute(FloatFormat::F32).is_host();
    let computes = if exact { formats_of_the_cpu() } else { vec![compute(FloatFormat::F32)] };
    for compute in computes {
        let format = compute.precision();
        let mut target = DecoderTarget::new(Arc::new(Decoder::load(dir, &compute).unwrap()), 256, Hooks::none());
        let vocab = target.decoder().config().vocab_size;
        let prompt: Vec<u32> = (0..21).map(|i| (i * 53 + 5) % vocab as u32).collect();
        target.prefill(&prompt).unwrap();
        // Every node of the largest tree, decoded one token at a time: thousands of passes, so a device that may be
        // software gets fewer.
        let most = if exact { 64 } else { 16 };
        let largest = tree(most, vocab);
        let plain: Vec<Vec<f32>> = (0..most).map(|node| decode_path(&mut target, &largest, node)).collect();
        let sizes: Vec<usize> = if exact { (1..=64).collect() } else { vec![1, 2, 7, 16] };
        for nodes in sizes {
            let tree = tree(nodes, vocab);
            assert_eq!(tree.tokens(), &largest.tokens()[..nodes]);
            let output = target.verify_tree(&tree).unwrap();
            let logits = target.logits(&output.hidden);
            target.commit(&[]).unwrap();
            for (node, row) in logits.chunks_exact(vocab).enumerate() {
                let (worst, _) = differences(row, &plain[node]);
                let same = if exact { row == plain[node] } else { worst < 1e-3 };
                assert!(same, "{name} {format}: node {node} of {nodes} differs by {worst:e}");
            }
        }
    }
}

#[test]
fn tree_verification_equals_plain_decoding_of_every_path() {
    for (name, dir) in backbones("tree verification") {
        check_trees(&name, &dir);
    }
}

/// Models that need no reference data: grouped queries, odd widths, and work enough for several threads.
#[test]
fn tree_verification_of_random_models() {
    let shape = |hidden_size: usize, intermediate_size: usize, kv_heads: usize| LlamaShape {
        hidden_size,
        intermediate_size,
        layers: 2,
        heads: 4,
        kv_heads,
        vocab_size: 333,
        max_positions: 256,
    };
    for (i, shape) in [shape(48, 70, 1), shape(64, 96, 4), shape(256, 400, 2)].iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        shape.write(dir.path(), FloatFormat::F32, i as u64).unwrap();
        check_trees(&format!("random {i}"), dir.path());
    }
}

/// The logits of a prompt, a tree and a lone token, on a model with 333 tokens.
fn logits_of_three_passes(dir: &Path, compute: &Compute) -> Vec<Vec<f32>> {
    let decoder = Decoder::load(dir, compute).unwrap();
    let mut target = DecoderTarget::new(Arc::new(decoder), 96, Hooks::none());
    let prompt: Vec<u32> = (0..21).map(|i| (i * 53 + 5) % 333).collect();
    let mut outputs = vec![];
    let output = target.prefill(&prompt).unwrap();
    outputs.push(target.logits(&output.hidden).to_vec());
    for nodes in [12, 1] {
        let tree = tree(nodes, 333);
        let output = target.verify_tree(&tree).unwrap();
        outputs.push(target.logits(&output.hidden).to_vec());
        target.commit(&tree.path(nodes / 2)).unwrap();
    }
    outputs
}

/// On a GPU in bf16: near the CPU's f32 with the same weights, in a prompt, a tree and a lone token.
#[test]
fn a_gpu_in_bf16_stays_near_the_cpu() {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    let compute = Compute::resolve(device.parse().unwrap(), Some(FloatFormat::Bf16));
    let Some(compute) = compute.ok().filter(|compute| !compute.is_host()) else {
        eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU with bf16");
        return;
    };
    // K of every product of the last one is split, so that norms, gates and caches read parts.
    for (hidden_size, intermediate_size, kv_heads) in [(64, 96, 4), (256, 400, 2), (512, 1056, 2)] {
        let shape = LlamaShape {
            hidden_size,
            intermediate_size,
            layers: 2,
            heads: 4,
            kv_heads,
            vocab_size: 333,
            max_positions: 128,
        };
        let dir = tempfile::tempdir().unwrap();
        shape.write(dir.path(), FloatFormat::Bf16, 7).unwrap();
        let logits = |compute: &Compute| logits_of_three_passes(dir.path(), compute);
        let (want, got) = (logits(&Compute::cpu(FloatFormat::F32)), logits(&compute));
        for ((want, got), what) in want.iter().zip(&got).zip(["prompt", "tree", "token"]) {
            let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
            let (worst, mean) = differences(got, want);
            assert!(
                worst < 0.05 * largest && mean < 0.01 * largest,
                "{hidden_size} wide, {what}: {worst:e}, mean {mean:e}, of {largest:e}"
            );
            assert!(worst > 0.0, "{what}: it was rounded somewhere");
        }
    }
}

/// After a commit of any path, decoding continues as if only that path had ever been decoded.
#[test]
fn committed_paths_continue_like_plain_decoding() {
    for (name, dir) in backbones("commit") {
        let mut target = target(&dir, FloatFormat::F32, 128);
        let exact = target.decoder().compute().is_host();
        let vocab = target.decoder().config().vocab_size;
        let prompt: Vec<u32> = (0..14).map(|i| (i * 29 + 3) % vocab as u32).collect();
        let tree = tree(17, vocab);
        for node in (0..tree.len()).step_by(if exact { 1 } else { 8 }) {
            let path = tree.path(node);
            target.reset();
            target.prefill(&prompt).unwrap();
            target.verify_tree(&tree).unwrap();
            target.commit(&path).unwrap();
            let after = target.verify_tree(&TokenTree::root(9)).unwrap();
            let after = target.logits(&after.hidden);

            let mut plain = prompt.clone();
            plain.extend(path.iter().map(|&n| tree.token(n)));
            plain.push(9);
            target.reset();
            let want = target.prefill(&plain).unwrap();
            let want = target.logits(&want.hidden);
            let (worst, _) = differences(&after, last_row(&want, vocab));
            assert!(if exact { worst == 0.0 } else { worst < 1e-3 }, "{name} path {path:?}: {worst:e}");
        }
    }
}

/// Asking the CPU for `f32` keeps a 16-bit checkpoint in 16 bits, and changes nothing: the same model stored in `f32`
/// gives the same bits.
#[test]
fn storage_does_not_change_results() {
    let shape = LlamaShape {
        hidden_size: 48,
        intermediate_size: 80,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        vocab_size: 300,
        max_positions: 64,
    };
    for format in [FloatFormat::Bf16, FloatFormat::F16] {
        let (narrow, wide) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        shape.write(narrow.path(), format, 3).unwrap();
        let stored = Checkpoint::open(narrow.path()).unwrap();
        let values: Vec<_> =
            stored.entries().iter().map(|(name, e)| (name, e, stored.read_all(name).unwrap())).collect();
        let source = |(name, entry, values): &(&String, &Entry, Vec<f32>)| {
            let values = values.clone();
            let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
            Source { name: name.to_string(), dtype: Dtype::F32, shape: entry.shape.clone(), fill }
        };
        let sources: Vec<Source<'_>> = values.iter().map(source).collect();
        gorgon_runs::tensors::write(&wide.path().join("model.safetensors"), &sources).unwrap();
        std::fs::copy(narrow.path().join("config.json"), wide.path().join("config.json")).unwrap();
        let logits = |dir: &Path| {
            let decoder = Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap());
            let bytes = decoder.bytes_per_step();
            let mut target = DecoderTarget::new(decoder, 64, Hooks::none());
            let output = target.prefill(&[1, 2, 3, 250]).unwrap();
            (target.logits(&output.hidden), bytes)
        };
        let ((a, small), (b, large)) = (logits(narrow.path()), logits(wide.path()));
        assert_eq!(a, b, "{format:?}");
        assert_eq!(2 * small, large);
    }
}

#[test]
fn eight_bits_for_drafts_leave_the_logits_alone() {
    let shape = LlamaShape {
        hidden_size: 48,
        intermediate_size: 80,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        vocab_size: 300,
        max_positions: 64,
    };
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let load = |weights, draft_weights| {
        let integers = IntegerWeights { weights, draft_weights, ..IntegerWeights::default() };
        Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32).with_integers(integers).unwrap()).unwrap()
    };
    let logits = |weights, drafts| {
        let mut target = DecoderTarget::new(Arc::new(load(weights, drafts)), 64, Hooks::none());
        let output = target.prefill(&[1, 2, 3, 250]).unwrap();
        let drafts = read(target.decoder().draft_logits_tensor(&output.hidden.tensor()));
        (target.logits(&output.hidden).to_vec(), drafts, target.decoder().bytes_per_step())
    };
    let ((plain, same, bytes), (concat_columns, drafts, _), (all, all_drafts, few)) = (
        logits(Weights::Stored, DraftWeights::Stored),
        logits(Weights::Stored, DraftWeights::Int8),
        logits(Weights::Int8, DraftWeights::Stored),
    );
    assert_eq!((&plain, &same), (&concat_columns, &plain));
    assert_eq!(all, all_drafts);
    assert!(few * 3 < bytes, "{few} of {bytes} bytes");
    let reach = plain.iter().fold(0f32, |a, b| a.max(b.abs()));
    for (what, logits) in [("drafts", drafts), ("all", all)] {
        let (worst, _) = differences(&logits, &plain);
        assert!(worst > 0.0 && worst < 0.05 * reach, "{what}: {worst} of {reach}");
    }
}

#[test]
fn chunked_prefill_and_taps() {
    let Some(dir) = shared::shared("models/stories260k", "prefill in chunks") else { return };
    let decoder = Arc::new(Decoder::load(&dir, &compute(FloatFormat::F32)).unwrap());
    let exact = decoder.compute().is_host();
    let layers = decoder.config().layers;
    let hooks = Hooks::new(vec![layers, 0, 2], layers).unwrap();
    let prompt: Vec<u32> = (0..300).map(|i| (i * 31 + 7) % 512).collect();
    let mut whole = DecoderTarget::new(decoder.clone(), 512, hooks.clone());
    let output = whole.prefill(&prompt).unwrap();
    assert_eq!(output.hidden.tensor().dims(), [1, 300, 64]);
    assert_eq!(output.hooks.iter().map(|hook| (hook.rows(), hook.width())).collect::<Vec<_>>(), [(300, 64); 3]);
    let mut parts = DecoderTarget::new(decoder, 512, hooks);
    let mut rows = vec![];
    let mut hooked = vec![vec![]; 3];
    for part in [&prompt[..1], &prompt[1..40], &prompt[40..300]] {
        let output = parts.prefill(part).unwrap();
        rows.extend(read(output.hidden.tensor()));
        output.hooks.into_iter().zip(&mut hooked).for_each(|(hook, all)| all.extend(hook.into_values().into_vec()));
    }
    let limit = if exact { 0.0 } else { 1e-3 };
    assert!(differences(&rows, &read(output.hidden.tensor())).0 <= limit);
    for (whole, parts) in output.hooks.into_iter().zip(&hooked) {
        assert!(differences(parts, &whole.into_values()).0 <= limit);
    }
}

/// A small model that others trained tells a story, not noise.
#[test]
fn a_trained_model_tells_a_story() {
    let Some(dir) = shared::shared("models/stories260k", "story") else { return };
    let mut target = target(&dir, FloatFormat::F32, 256);
    let output = target.prefill(&[1]).unwrap();
    let mut logits = target.logits(&output.hidden);
    let mut story = vec![];
    let length = if target.decoder().compute().is_host() { 200 } else { 40 };
    for _ in 0..length {
        let next = argmax(&logits);
        story.push(next);
        let output = target.verify_tree(&TokenTree::root(next)).unwrap();
        target.commit(&[0]).unwrap();
        logits = target.logits(&output.hidden);
    }
    let text = gorgon_text::tokenizer::Tokenizer::load(&dir).unwrap().decode(&story, true).unwrap();
    assert!(["Once upon a time", "Lily", "She", "play"].iter().all(|word| text.contains(word)), "{text}");
}
