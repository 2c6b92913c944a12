//! T5 models against values of another implementation, on the CPU.

use crate::shared;

use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::device::{ActivationBits, Compute, FloatFormat, IntegerWeights, Products, Weights};
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::{DecoderTarget, Target, read};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of the reference models, with their names.
fn models(test: &str) -> Vec<(String, PathBuf)> {
    let Some(root) = shared::shared("fixtures/t5", test) else { return vec![] };
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        folders.map(|folder| (folder.file_name().unwrap().to_string_lossy().into_owned(), folder)).collect();
    found.sort();
    found
}

fn load(dir: &Path, compute: &Compute) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, compute).unwrap())
}

fn target(decoder: &Arc<Decoder>) -> DecoderTarget {
    DecoderTarget::new(decoder.clone(), 1 << 20, Hooks::none())
}

fn cpu() -> Compute {
    Compute::cpu(FloatFormat::F32)
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn ids(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

fn json_of(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap()
}

fn close(name: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{name}");
    let each = got.iter().zip(want).map(|(a, b)| (a - b).abs());
    let (worst, mean) = (each.clone().fold(0.0, f32::max), each.sum::<f32>() / got.len() as f32);
    assert!(worst < 1e-3 && mean < 5e-5, "{name}: {worst:e}, mean {mean:e}");
}

fn argmax(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().fold(0, |best, (i, value)| if *value > row[best] { i } else { best });
    best as u32
}

/// Greedy tokens after what a target has read, whose last logits these are.
fn greedy(target: &mut DecoderTarget, last: &[f32], count: usize) -> Vec<u32> {
    let mut tokens = vec![argmax(last)];
    while tokens.len() < count {
        let output = target.extend(&[tokens[tokens.len() - 1]]).unwrap();
        tokens.push(argmax(&target.logits(&output.hidden)));
    }
    tokens
}

/// A target that has read a source and the decoder's tokens, and all of its logits.
fn read_case(target: &mut DecoderTarget, source: &[u32], decoder: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let output = target.prefill_behind(source.len(), &[source, decoder].concat()).unwrap();
    let logits = target.logits(&output.hidden).to_vec();
    (read(output.hidden.tensor()), logits)
}

#[test]
fn states_logits_and_greedy_texts() {
    for (name, dir) in models("states and logits of T5") {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        if expected.tensor("long.source_ids").is_err() {
            continue;
        }
        let decoder = load(&dir, &cpu());
        let (mut target, vocab) = (target(&decoder), decoder.config().vocab_size);
        for case in ["long", "short"] {
            let of = |what: &str| format!("{case}.{what}");
            let (source, inputs) = (ids(&expected, &of("source_ids")), ids(&expected, &of("decoder_input_ids")));
            let (hidden, logits) = read_case(&mut target, &source, &inputs);
            let states = read(target.source().unwrap().states().tensor());
            close(&format!("{name} {case} encoder"), &states, &floats(&expected, &of("encoder_hidden")));
            close(&format!("{name} {case} decoder"), &hidden, &floats(&expected, &of("decoder_hidden")));
            let at = ids(&expected, &of("logits_at"));
            let rows: Vec<f32> = at.iter().flat_map(|&row| &logits[row as usize * vocab..][..vocab]).copied().collect();
            close(&format!("{name} {case} logits"), &rows, &floats(&expected, &of("logits")));
            let after = greedy(&mut target, &logits[logits.len() - vocab..], 48);
            assert_eq!(after, ids(&expected, &of("greedy_after")), "{name} {case}");
            let start = decoder.config().encoder.unwrap().start_token;
            let (_, logits) = read_case(&mut target, &source, &[start]);
            assert_eq!(greedy(&mut target, &logits, 48), ids(&expected, &of("greedy")), "{name} {case}");
        }
    }
}

#[test]
fn token_trees_have_the_logits_of_their_paths() {
    for (name, dir) in models("trees of T5") {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        let Some(parents) = json_of(&dir)["tree_parents"].as_array().cloned() else { continue };
        let decoder = load(&dir, &cpu());
        let mut target = target(&decoder);
        for case in ["long", "short"] {
            let of = |what: &str| format!("{case}.{what}");
            let tokens = ids(&expected, &of("tree_tokens"));
            let mut tree = TokenTree::root(tokens[0]);
            for (parent, token) in parents.iter().zip(&tokens).skip(1) {
                tree.push(parent.as_u64().unwrap() as usize, *token);
            }
            let inputs = ids(&expected, &of("decoder_input_ids"));
            let (last, before) = inputs.split_last().unwrap();
            assert_eq!(*last, tokens[0]);
            let source = ids(&expected, &of("source_ids"));
            read_case(&mut target, &source, before);
            let output = target.verify_tree(&tree).unwrap();
            close(&format!("{name} {case}"), &target.logits(&output.hidden), &floats(&expected, &of("tree_logits")));
        }
    }
}

/// Number formats of the CPU.
fn computes() -> Vec<Compute> {
    let integers = |weights, bits| {
        let integers = IntegerWeights { weights, activation_bits: Some(bits), ..IntegerWeights::STORED };
        cpu().with_integers(integers).unwrap()
    };
    let rounded = [integers(Weights::Int8, ActivationBits::Eight), integers(Weights::Int4, ActivationBits::Sixteen)];
    [cpu(), Compute::cpu(FloatFormat::F16)]
        .into_iter()
        .chain(rounded)
        .chain(cpu().with_products(Products::Bf16))
        .collect()
}

/// A tree of `nodes` nodes with branches, runs and gaps.
fn tree(nodes: usize, vocab: usize) -> TokenTree {
    let mut tree = TokenTree::root(17 % vocab as u32);
    for node in 1..nodes {
        let parent = if node % 3 == 0 { node - 1 } else { (node * 7 + 3) % node };
        tree.push(parent, ((node * 37 + 11) % vocab) as u32);
    }
    tree
}

/// Trees of 1 to 64 nodes equal plain decoding of their paths bit for bit, near the start and beyond the distances that
/// have a term of their own; so do several sequences in one pass.
#[test]
fn verifying_a_tree_equals_plain_decoding_bit_for_bit() {
    for (name, dir) in models("exact trees of T5") {
        for compute in computes() {
            let decoder = load(&dir, &compute);
            let token = |i: usize| (i * 53 + 5) as u32 % decoder.config().vocab_size as u32;
            let source: Vec<u32> = (0..150).map(token).collect();
            for length in [1, 140] {
                let text: Vec<u32> = (0..length).map(|i| token(i + 3)).collect();
                let nodes: Vec<usize> = if length == 1 { (0..64).collect() } else { vec![0, 1, 31, 63] };
                check_trees(&format!("{name} {}", compute.precision()), &decoder, (&source, &text), &nodes);
            }
        }
    }
}

/// The logits at the end of a node's path, decoded one token at a time.
fn decode_path(target: &mut DecoderTarget, tree: &TokenTree, node: usize) -> Vec<f32> {
    let (committed, mut logits) = (target.len(), vec![]);
    for &ancestor in &tree.path(node) {
        let output = target.extend(&[tree.token(ancestor)]).unwrap();
        logits = target.logits(&output.hidden).to_vec();
    }
    target.truncate(committed);
    logits
}

/// Trees after a text, alone and beside another sequence, against plain decoding of the paths to `nodes`.
fn check_trees(name: &str, decoder: &Arc<Decoder>, (source, text): (&[u32], &[u32]), nodes: &[usize]) {
    let vocab = decoder.config().vocab_size;
    let (mut plain, mut other, largest) = (target(decoder), target(decoder), tree(64, vocab));
    read_case(&mut plain, source, text);
    read_case(&mut other, &source[..31], &text[..1]);
    let want: Vec<(usize, Vec<f32>)> =
        nodes.iter().map(|&node| (node, decode_path(&mut plain, &largest, node))).collect();
    for size in [1, 2, 7, 8, 9, 33, 64] {
        let tree = tree(size, vocab);
        let output = plain.verify_tree(&tree).unwrap();
        let logits = plain.logits(&output.hidden);
        plain.roll_back();
        let mask = AttentionMask::in_tree(tree.parents());
        let plan = || PassPlan::of_tokens(tree.tokens(), &mask);
        let together = DecoderTarget::verify_together(&mut [(&mut other, plan()), (&mut plain, plan())]).unwrap();
        let together = plain.logits(&together.hidden.narrow(size, size));
        plain.roll_back();
        other.roll_back();
        for (node, want) in want.iter().filter(|(node, _)| *node < size) {
            let row = node * vocab..(node + 1) * vocab;
            assert_eq!(logits[row.clone()], **want, "{name}: node {node} of {size}");
            assert_eq!(together[row], **want, "{name}: node {node} of {size}, with another sequence");
        }
    }
}

/// The draft model's own states and logits, and the reference's speculation by hand: every draft, acceptance and bonus.
#[test]
fn a_draft_with_an_encoder_of_its_own() {
    let all = models("a T5 draft");
    for (name, dir) in all.iter().filter(|(_, dir)| json_of(dir)["target"].is_string()) {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let (expected, runs) = (SafeTensors::deserialize(&bytes).unwrap(), json_of(dir));
        let (of, gamma) = (runs["target"].as_str().unwrap(), runs["gamma"].as_u64().unwrap() as usize);
        let large = load(&dir.with_file_name(of), &cpu());
        let small = load(dir, &cpu());
        let start = large.config().encoder.unwrap().start_token;
        for (number, run) in runs["runs"].as_array().unwrap().iter().enumerate() {
            let of = |what: &str| format!("run{number}.{what}");
            let (source, text) = (ids(&expected, &of("source_ids")), ids(&expected, &of("target_greedy")));
            let (mut target, mut draft) = (target(&large), target(&small));
            let fed: Vec<u32> = [start].into_iter().chain(text[..47].iter().copied()).collect();
            let (_, logits) = read_case(&mut draft, &source, &fed);
            close(&format!("{name} draft"), &logits, &floats(&expected, &of("draft_logits")));
            let states = read(draft.source().unwrap().states().tensor());
            close(&format!("{name} encoder"), &states, &floats(&expected, &of("draft_encoder_hidden")));

            target.read_source(&source).unwrap();
            draft.read_source(&source).unwrap();
            let got = speculate(&mut target, &mut draft, start, gamma, run["steps"].as_array().unwrap());
            assert_eq!(got[..text.len()], text, "{name} run {number}");
        }
    }
}

/// Steps of greedy speculation from the first token on, each as the reference took it. Returns the text.
fn speculate(
    target: &mut DecoderTarget,
    draft: &mut DecoderTarget,
    start: u32,
    gamma: usize,
    steps: &[Value],
) -> Vec<u32> {
    let vocab = target.decoder().config().vocab_size;
    let (mut unread, mut got) = (vec![start], vec![]);
    for step in steps {
        let root = unread[unread.len() - 1];
        let output = draft.extend(&unread).unwrap();
        let last = draft.logits(&output.hidden.narrow(unread.len() - 1, 1));
        let known = draft.len();
        let drafts = greedy(draft, &last, gamma);
        assert_eq!(json!(drafts), step["drafts"]);
        let tokens: Vec<u32> = [root].into_iter().chain(drafts.iter().copied()).collect();
        let mask = AttentionMask::Causal { rows: tokens.len() };
        let output = target.verify(&PassPlan::of_tokens(&tokens, &mask)).unwrap();
        let logits = target.logits(&output.hidden);
        let said: Vec<u32> = logits.chunks_exact(vocab).map(argmax).collect();
        let accepted = drafts.iter().zip(&said).take_while(|(a, b)| a == b).count();
        assert_eq!(json!([accepted, said[accepted]]), json!([step["accepted"], step["bonus"]]));
        target.commit(&(0..=accepted).collect::<Vec<_>>()).unwrap();
        draft.truncate(known + accepted.min(gamma - 1));
        got.extend_from_slice(&drafts[..accepted]);
        got.push(said[accepted]);
        unread = if accepted == gamma { vec![drafts[gamma - 1], said[gamma]] } else { vec![said[accepted]] };
    }
    got
}

/// A source is encoded once for all texts behind it, and another one replaces it.
#[test]
fn a_source_is_encoded_once() {
    for (_, dir) in models("sources of T5") {
        let decoder = load(&dir, &cpu());
        let mut target = target(&decoder);
        assert!(matches!(target.extend(&[0]), Err(ModelError::NoSource)));
        let (first, second) = ([5, 6, 7, 1], [5, 6, 8, 1]);
        let (_, logits) = read_case(&mut target, &first, &[0, 9]);
        let made = Arc::as_ptr(target.source().unwrap());
        assert_eq!(target.len(), 6);
        target.reset();
        assert!(target.is_empty() && target.source().is_none());
        assert!(matches!(target.extend(&[0]), Err(ModelError::NoSource)));
        assert_eq!(read_case(&mut target, &first, &[0, 9]).1, logits);
        assert_eq!(Arc::as_ptr(target.source().unwrap()), made);
        target.truncate(5);
        assert_eq!(target.len(), 5);
        let output = target.extend(&[9]).unwrap();
        let row = target.logits(&output.hidden);
        assert_eq!(*row, logits[logits.len() - row.len()..]);
        assert_ne!(read_case(&mut target, &second, &[0, 9]).1, logits);
        target.truncate(3);
        assert!(target.is_empty());
        assert!(matches!(target.prefill(&[]), Err(ModelError::EmptyPrompt)));
        assert!(matches!(target.prefill(&[0]), Err(ModelError::EmptyPrompt)));
        let vocab = decoder.config().vocab_size as u32;
        assert!(matches!(target.prefill(&[vocab, 0]), Err(ModelError::Token { .. })));
    }
}

fn config(more: Value) -> Result<ModelConfig, String> {
    let mut config = json!({
        "model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 100
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ModelConfig::from_json(&config)
}

#[test]
fn absent_keys_get_their_defaults() {
    let oldest = config(json!({})).unwrap();
    let encoder = oldest.encoder.unwrap();
    assert_eq!((oldest.layers, encoder.layers, encoder.start_token, oldest.gated_mlp), (2, 2, 0, false));
    assert_eq!((encoder.buckets.count, encoder.buckets.max_distance), (32, 128));
    assert_eq!((oldest.head_scale, oldest.eos_tokens, oldest.norm_eps), (0.125, vec![1], 1e-6));
    let newer = config(json!({
        "tie_word_embeddings": true, "scale_decoder_outputs": false, "feed_forward_proj": "gated-gelu",
        "num_decoder_layers": 3, "decoder_start_token_id": 7, "pad_token_id": 5
    }));
    let newer = newer.unwrap();
    assert_eq!((newer.head_scale, newer.gated_mlp, newer.layers), (1.0, true, 3));
    assert_eq!(newer.encoder.unwrap().start_token, 7);
    assert_eq!(config(json!({"pad_token_id": 5})).unwrap().encoder.unwrap().start_token, 5);
    assert_eq!(config(json!({"tie_word_embeddings": false})).unwrap().head_scale, 1.0);
    assert_eq!(config(json!({"num_decoder_layers": null})).unwrap().layers, 2);
}

#[test]
fn wrong_values_are_refused_with_their_name() {
    let wrong = [
        ("d_model", json!(0)),
        ("d_model", json!(1_u64 << 40)),
        ("d_kv", json!(-1)),
        ("d_ff", json!("96")),
        ("num_layers", json!(1 << 20)),
        ("num_layers", json!(null)),
        ("num_decoder_layers", json!(0)),
        ("num_heads", json!(2.5)),
        ("vocab_size", json!([100])),
        ("relative_attention_num_buckets", json!(2)),
        ("relative_attention_num_buckets", json!(1_u64 << 33)),
        ("relative_attention_max_distance", json!(16)),
        ("relative_attention_max_distance", json!(u64::MAX)),
        ("layer_norm_epsilon", json!(0.0)),
        ("layer_norm_epsilon", json!("small")),
        ("feed_forward_proj", json!("gated-silu")),
        ("feed_forward_proj", json!(true)),
        ("decoder_start_token_id", json!(100)),
        ("decoder_start_token_id", json!([0, 1])),
        ("pad_token_id", json!(100)),
        ("eos_token_id", json!(-3)),
        ("tie_word_embeddings", json!(1)),
        ("scale_decoder_outputs", json!("yes")),
        ("is_encoder_decoder", json!(false)),
    ];
    for (key, value) in wrong {
        let error = config(json!({key: value})).unwrap_err();
        assert!(error.contains(key) && !error.contains('\n'), "{key}: {error}");
    }
    assert!(config(json!({"num_heads": 1 << 14, "d_kv": 1 << 13})).is_err());
}

/// Missing, unexpected and wrong tensors are all named; copies of the embedding table are none of them.
#[test]
fn tensors_are_checked_by_name() {
    for (name, dir) in models("tensors of T5") {
        let checkpoint = gorgon_model::weights::Checkpoint::open(&dir).unwrap();
        let config = ModelConfig::read(&dir).unwrap();
        assert!(checkpoint.problems(&config).is_empty(), "{name}: {}", checkpoint.problems(&config));
        let other = ModelConfig { gated_mlp: !config.gated_mlp, layers: config.layers + 1, ..config.clone() };
        let problems = checkpoint.problems(&other);
        let missing = format!("decoder.block.{}.layer.1.EncDecAttention.q.weight", config.layers);
        assert!(problems.missing.contains(&missing), "{name}: {problems}");
        assert!(problems.unexpected.iter().any(|tensor| tensor.contains("DenseReluDense.wi")), "{name}: {problems}");
        let buckets = config.encoder.unwrap().buckets;
        let mut encoder = config.encoder.unwrap();
        encoder.buckets.count = buckets.count * 2;
        let problems = checkpoint.problems(&ModelConfig { encoder: Some(encoder), ..config });
        assert_eq!(problems.wrong.len(), 2, "{name}: {problems}");
    }
}
