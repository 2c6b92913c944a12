//! GGUF files against safetensors folders with the same numbers: logits bit for bit.

mod written;

use gorgon_gguf::blocks::dequantise;
use gorgon_gguf::kind::Kind;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use gorgon_model::weight_rows::WeightRows;
use gorgon_model::weights::Checkpoint;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use written::{Tensors, file, folder};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 256,
    intermediate_size: 256,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 260,
    max_positions: 64,
};

/// Logits of some tokens.
fn logits(model: &Path) -> Vec<u32> {
    let decoder = Decoder::load(model, &Compute::cpu(FloatFormat::F32)).unwrap();
    let ids: Vec<u32> = (0..20).map(|i| i * 37 % 250).collect();
    let mut target = DecoderTarget::new(Arc::new(decoder), 64, Hooks::none());
    let output = target.prefill(&ids).unwrap();
    target.logits(&output.hidden).iter().map(|logit| logit.to_bits()).collect()
}

/// A folder and a file of the same numbers, whose matrices are of `kind`.
fn pair(kind: Kind, dir: &Path) -> (PathBuf, PathBuf) {
    let (original, same) = (dir.join("original"), dir.join("same"));
    SHAPE.write(&original, FloatFormat::F32, 3).unwrap();
    let tensors = Tensors::read(&original).coded(kind);
    folder(&tensors, &original, &same);
    let path = dir.join("m.gguf");
    file(&tensors, &path, &SHAPE);
    (same, path)
}

#[test]
fn configs_and_tensors_equal_the_folders() {
    for kind in Kind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (same, path) = pair(kind, dir.path());
        let (ours, theirs) = (ModelConfig::read(&path).unwrap(), ModelConfig::read(&same).unwrap());
        assert_eq!(ModelConfig { quantisation: None, ..ours.clone() }, theirs);
        assert_eq!(ours.quantisation.is_some(), kind.block() > 1);
        let (file, folder) = (Checkpoint::open(&path).unwrap(), Checkpoint::open(&same).unwrap());
        file.check(&ours).unwrap();
        for name in folder.entries().keys() {
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(file.read_all(name).unwrap()), bits(folder.read_all(name).unwrap()), "{kind:?} {name}");
        }
        // Ranges that begin and end within rows of interleaved heads.
        let name = "model.layers.1.self_attn.q_proj.weight";
        let (mut part, all) = (vec![0f32; 1000], folder.read_all(name).unwrap());
        file.read(name, 777..1777, &mut part).unwrap();
        assert_eq!(part, all[777..1777], "{kind:?}");
    }
}

#[test]
fn logits_equal_those_of_the_same_numbers() {
    for kind in Kind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (same, path) = pair(kind, dir.path());
        assert_eq!(logits(&path), logits(&same), "{kind:?}");
    }
}

#[test]
fn codes_stay_codes_where_they_have_no_minima() {
    for kind in Kind::blocks() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = pair(kind, dir.path());
        let checkpoint = Checkpoint::open(&path).unwrap();
        let names = ["q_proj", "k_proj", "v_proj"].map(|part| format!("model.layers.0.self_attn.{part}.weight"));
        let has_codes = WeightRows::new(&checkpoint, &names).unwrap().codes().is_some();
        let without_minima = matches!(kind, Kind::Q4_0 | Kind::Q5_0 | Kind::Q8_0 | Kind::Q6K);
        assert_eq!(has_codes, without_minima, "{kind:?}");
        // A block's bytes make its numbers, whatever reads them.
        let stored = checkpoint.read_stored(&format!("model.embed_tokens.{}", kind.suffix())).unwrap();
        let mut numbers = vec![0f32; 260 * 256];
        dequantise(kind, &stored, &mut numbers);
        assert_eq!(numbers, checkpoint.read_all("model.embed_tokens.weight").unwrap(), "{kind:?}");
    }
}
