//! Checkpoints that libraries wrote, against the values of a second implementation.

use super::folder::Folder;
use crate::shared;
use gorgon_core::tree::TokenTree;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{ActivationBits, Compute, FloatFormat, IntegerWeights, Weights};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_model::weights::Checkpoint;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of all quantised checkpoints, with their names.
pub fn checkpoints(test: &str) -> Vec<(String, PathBuf)> {
    let Some(root) = shared::shared("fixtures/quantised", test) else { return vec![] };
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = folders
        .filter(|folder| folder.join("expected.safetensors").is_file())
        .map(|folder| (folder.file_name().unwrap().to_string_lossy().into_owned(), folder))
        .collect();
    found.sort();
    assert_eq!(found.len(), 12, "quantised checkpoints");
    found
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn ids(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as u32
}

fn target(dir: &Path, compute: &Compute) -> DecoderTarget {
    DecoderTarget::new(Arc::new(Decoder::load(dir, compute).unwrap()), 128, Hooks::none())
}

fn cpu() -> Compute {
    Compute::cpu(FloatFormat::F32)
}

#[test]
fn dequantised_matrices_bit_for_bit() {
    for (name, dir) in checkpoints("dequantised matrices") {
        let checkpoint = Checkpoint::open(&dir).unwrap();
        let problems = checkpoint.problems(&ModelConfig::read(&dir).unwrap());
        assert!(problems.is_empty(), "{name}: {problems}");
        let expected = json(&dir.join("expected.json"));
        let hashes = expected["dequantised_sha256"].as_object().unwrap();
        assert_eq!(checkpoint.quantised_modules().len(), hashes.len(), "{name}");
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        for (module, hash) in hashes {
            let values = checkpoint.read_all(&format!("{module}.weight")).unwrap();
            for prefix in ["weight", "weight_first_rows"] {
                if let Ok(view) = file.tensor(&format!("{prefix}.{module}")) {
                    let want = floats(&file, &format!("{prefix}.{module}"));
                    assert_eq!(view.dtype(), safetensors::Dtype::F32);
                    let near = values.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 3e-7 * b.abs());
                    assert!(near, "{name} {module}");
                }
            }
            if name != "bnb_int8" {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(found, hash.as_str().unwrap(), "{name} {module}");
            }
            // Any range of elements, rows cut anywhere.
            let range = 7..values.len() - 5;
            let mut part = vec![0f32; range.len()];
            checkpoint.read(&format!("{module}.weight"), range.clone(), &mut part).unwrap();
            assert_eq!(part, values[range], "{name} {module}");
        }
    }
}

#[test]
fn hidden_states_logits_and_greedy_continuations() {
    for (name, dir) in checkpoints("decoders on quantised checkpoints") {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        let mut target = target(&dir, &cpu());
        let vocab = target.decoder().config().vocab_size;
        for case in ["seq", "short"] {
            target.reset();
            let output = target.prefill(&ids(&expected, &format!("{case}.input_ids"))).unwrap();
            let logits = target.logits(&output.hidden);
            let off = worst(&read(output.hidden.tensor()), &floats(&expected, &format!("{case}.hidden")));
            assert!(off < 1e-3, "{name} {case} hidden: {off:e}");
            let off = worst(&logits, &floats(&expected, &format!("{case}.logits")));
            assert!(off < 1e-3, "{name} {case} logits: {off:e}");
            let want = ids(&expected, &format!("{case}.greedy"));
            let mut got = vec![argmax(&logits[logits.len() - vocab..])];
            while got.len() < want.len() {
                let output = target.verify_tree(&TokenTree::root(*got.last().unwrap())).unwrap();
                target.commit(&[0]).unwrap();
                got.push(argmax(&target.logits(&output.hidden)));
            }
            assert_eq!(got, want, "{name} {case} greedy");
        }
    }
}

/// A tree of `nodes` nodes with branches, runs and gaps.
fn tree(nodes: usize, vocab: usize) -> TokenTree {
    let mut tree = TokenTree::root(17);
    for node in 1..nodes {
        let parent = if node % 3 == 0 { node - 1 } else { (node * 7 + 3) % node };
        tree.push(parent, ((node * 37 + 11) % vocab) as u32);
    }
    tree
}

#[test]
fn tree_verification_equals_plain_decoding_of_every_path() {
    let integers = |integers| cpu().with_integers(integers).unwrap();
    let int8 = integers(IntegerWeights { weights: Weights::Int8, ..IntegerWeights::STORED });
    let bits = Some(ActivationBits::Sixteen);
    let sixteen = integers(IntegerWeights { activation_bits: bits, ..IntegerWeights::STORED });
    for (name, dir) in checkpoints("tree verification on quantised checkpoints") {
        for compute in [cpu(), Compute::cpu(FloatFormat::F16), int8.clone(), sixteen.clone()] {
            let mut target = target(&dir, &compute);
            let vocab = target.decoder().config().vocab_size;
            let prompt: Vec<u32> = (0..13).map(|i| (i * 53 + 5) % vocab as u32).collect();
            target.prefill(&prompt).unwrap();
            let tree = tree(33, vocab);
            let output = target.verify_tree(&tree).unwrap();
            let logits = target.logits(&output.hidden).to_vec();
            target.commit(&[]).unwrap();
            for (node, row) in logits.chunks_exact(vocab).enumerate() {
                let mut plain = vec![];
                for &ancestor in &tree.path(node) {
                    let output = target.verify_tree(&TokenTree::root(tree.token(ancestor))).unwrap();
                    target.commit(&[0]).unwrap();
                    plain = target.logits(&output.hidden).to_vec();
                }
                target.truncate(prompt.len());
                assert_eq!(row, plain, "{name} {}: node {node}", compute.precision());
            }
        }
    }
}

#[test]
fn loaded_bytes_are_those_of_the_panels() {
    for (name, dir) in checkpoints("memory of quantised checkpoints") {
        let checkpoint = Checkpoint::open(&dir).unwrap();
        let decoder = Decoder::load(&dir, &cpu()).unwrap();
        let config = decoder.config();
        let table = config.vocab_size * config.hidden_size * 2;
        // Of an untied model the embeddings come on top; panels are filled up to whole ones.
        let held = decoder.bytes_per_step() + if config.tied_embeddings { 0 } else { table };
        let said = checkpoint.loaded_bytes(&cpu());
        let off = (held as f64 - said as f64).abs() / held as f64;
        assert!(off < 0.05, "{name}: {said} bytes announced, {held} held");
    }
}

fn logits(dir: &Path) -> Vec<f32> {
    let mut target = target(dir, &cpu());
    let output = target.prefill(&[3, 1, 200, 17, 5]).unwrap();
    target.logits(&output.hidden).to_vec()
}

#[test]
fn shards_change_nothing() {
    for (name, dir) in checkpoints("sharded quantised checkpoints") {
        let folder = Folder::read(&dir);
        let out = tempfile::tempdir().unwrap();
        std::fs::copy(dir.join("config.json"), out.path().join("config.json")).unwrap();
        let mut map = serde_json::Map::new();
        for shard in 0..3 {
            let file = format!("model-{shard}.safetensors");
            // Tensors of one module land in different files.
            let of = |i: &usize| i % 3 == shard;
            let chosen = folder.tensors.iter().enumerate().filter(|(i, _)| of(i)).map(|(_, tensor)| tensor);
            chosen.clone().for_each(|tensor| drop(map.insert(tensor.name.clone(), file.as_str().into())));
            let sources: Vec<_> = chosen.map(|tensor| tensor.source()).collect();
            gorgon_runs::tensors::write(&out.path().join(&file), &sources).unwrap();
        }
        let index = json!({"metadata": {}, "weight_map": map}).to_string();
        std::fs::write(out.path().join("model.safetensors.index.json"), index).unwrap();
        assert_eq!(logits(out.path()), logits(&dir), "{name}");
    }
}

#[test]
fn ignored_modules_are_read_as_they_are() {
    let Some(dir) = shared::shared("fixtures/quantised/ct_int4_g128_sym", "an ignore list") else { return };
    let module = "model.layers.1.mlp.down_proj";
    let values = Checkpoint::open(&dir).unwrap().read_all(&format!("{module}.weight")).unwrap();
    let mut folder = Folder::read(&dir);
    folder.tensors.retain(|tensor| !tensor.name.starts_with(module));
    let folder = folder.floats(&format!("{module}.weight"), &[128, 256], &values);
    let config = json(&dir.join("config.json"));
    for ignore in [json!(["lm_head", module]), json!(["lm_head", "re:.*layers\\.1.*down_proj$"])] {
        let mut folder = Folder { settings: folder.settings.clone(), tensors: folder.tensors.clone() };
        folder.settings["ignore"] = ignore;
        let out = tempfile::tempdir().unwrap();
        folder.write(out.path(), &config);
        assert_eq!(logits(out.path()), logits(&dir));
        // Listed and yet packed: that is another checkpoint than the config's.
        let mut packed = Folder::read(&dir);
        packed.settings = folder.settings.clone();
        packed.write(out.path(), &config);
        let problems = Checkpoint::open(out.path()).unwrap().problems(&ModelConfig::read(out.path()).unwrap());
        assert_eq!(problems.missing, [format!("{module}.weight")]);
        assert_eq!(problems.unexpected.len(), 3, "{problems}");
    }
}
