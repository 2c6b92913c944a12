//! Tests of `grow`: the same logits and texts from a larger body.

use super::matrix::{Fill, Growing};
use super::*;
use crate::console::Console;
use crate::demo::{equality, prompts};
use crate::drafting::DrafterChoice;
use crate::measuring::Options;
use crate::settings::{NumberFormats, Settings};
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_draft::medusa::{MedusaConfig, MedusaModel};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat, IntegerWeights, Products, Weights};
use gorgon_model::hooks::Hooks;
use gorgon_model::layout;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::provenance::Build;
use gorgon_runs::tensors::{self, Source};
use gorgon_text::variables::Variables;
use safetensors::Dtype;
use serde_json::json;
use std::sync::Arc;

/// Writes tensors of pseudo-random numbers in `[-0.2, 0.2)`, norms around one.
fn draw(path: &Path, named: &[(String, Vec<usize>)], dtype: Dtype) {
    let source = |(i, (name, shape)): (usize, &(String, Vec<usize>))| {
        let (n, offset) = (shape.iter().product::<usize>(), if name.ends_with("norm.weight") { 1.0 } else { 0.0 });
        let mut state = 77 + i as u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            offset + 0.4 * ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5)
        };
        let values: Vec<f32> = (0..n).map(|_| next()).collect();
        let same = Growing { from: [1, n], to: [1, n], scale: 1.0, columns: Fill::Zeros, rows: Fill::Zeros, seed: 0 };
        let fill = Box::new(move |file: &mut dyn std::io::Write| same.write(&values, dtype, file));
        Source { name: name.clone(), dtype, shape: shape.clone(), fill }
    };
    tensors::write(path, &named.iter().enumerate().map(source).collect::<Vec<_>>()).unwrap();
}

/// A small model of random weights; `more` is added to its config.
fn toy(dir: &Path, more: Value, dtype: Dtype) {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 48,
        "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 96, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
        "tie_word_embeddings": false,
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let specs = layout::tensors(&ModelConfig::read(dir).unwrap());
    let named: Vec<_> = specs.into_iter().map(|spec| (spec.name, spec.shape)).collect();
    draw(&dir.join("model.safetensors"), &named, dtype);
}

fn toy_heads(dir: &Path, config: &MedusaConfig) -> HeadsFolder {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("config.json"), config.document(48, 96, "toy").to_string()).unwrap();
    let named: Vec<_> = config.parameters(48, 96).into_iter().map(|spec| (spec.name, spec.shape)).collect();
    draw(&dir.join("model.safetensors"), &named, Dtype::F32);
    HeadsFolder::open(dir).unwrap()
}

/// Logits of a model and its heads at every token of a text.
fn logits(model: &Path, heads: &Path, weights: Weights) -> (Vec<f32>, Vec<f32>) {
    let integers = IntegerWeights { weights, ..IntegerWeights::STORED };
    let compute = Compute::cpu(FloatFormat::F32).with_integers(integers).unwrap();
    let decoder = Arc::new(Decoder::load(model, &compute).unwrap());
    let mut target = DecoderTarget::new(decoder.clone(), 32, Hooks::none());
    let hidden = target.prefill(&[3, 17, 90, 4, 4, 61, 22, 8]).unwrap().hidden;
    let heads = MedusaModel::load(&HeadsFolder::open(heads).unwrap(), decoder.clone()).unwrap();
    let drafts = (0..8).flat_map(|t| heads.logits(&hidden.narrow(t, 1), 9).to_vec()).collect();
    (decoder.logits(&hidden).to_vec(), drafts)
}

fn settings() -> Settings {
    Settings {
        seed: 0,
        typed_seed: None,
        template: Variables::new(),
        offline: true,
        context: None,
        console: Console::silent(),
        build: Build { version: "0.1.0".into(), commit: "unknown".into(), features: vec!["cpu".into()] },
        started: jiff::Timestamp::now(),
        together: vec![],
        devices: "cpu".parse().unwrap(),
        formats: NumberFormats { dtype: None, compute_dtype: Products::F32, integers: IntegerWeights::STORED },
    }
}

#[test]
fn rows_and_columns_are_added() {
    let grow = |rows, columns, values: &[f32]| {
        let mut bytes = vec![];
        let growing = Growing { from: [2, 2], to: [3, 5], scale: 0.5, columns, rows, seed: 9 };
        growing.write(values, Dtype::F32, &mut bytes)?;
        let numbers = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        Ok::<_, std::io::Error>(numbers.collect::<Vec<f32>>())
    };
    let zeros = grow(Fill::Zeros, Fill::Zeros, &[2.0, 4.0, 6.0, 8.0]).unwrap();
    assert_eq!(zeros, [1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let random = grow(Fill::Random, Fill::Random, &[2.0, 4.0, 6.0, 8.0]).unwrap();
    assert_eq!((random[0], random[6]), (1.0, 4.0));
    assert!(random[2..5].iter().all(|v| *v != 0.0 && v.abs() <= 1.0), "{random:?}");
    assert!(random[7..10].iter().all(|v| *v != 0.0 && v.abs() <= 2.0), "{random:?}");
    assert!(random[10..].iter().all(|v| *v != 0.0), "{random:?}");
    assert!(grow(Fill::Zeros, Fill::Zeros, &[2.0, 4.0, 6.0]).is_err());
    let growing = Growing { from: [1, 2], to: [1, 1], scale: 1.0, columns: Fill::Zeros, rows: Fill::Zeros, seed: 0 };
    assert!(growing.write(&[1.0, 2.0], Dtype::F32, &mut vec![]).is_err());
    let growing = Growing { to: [1, 2], ..growing };
    assert!(growing.write(&[1.0, 2.0], Dtype::I64, &mut vec![]).is_err());
}

/// Grouped heads, biases, sliding windows, own and tied LM heads, one and two blocks: logits are equal bit for bit.
#[test]
fn logits_stay_bit_for_bit() {
    let variants = [
        (json!({}), Dtype::F32, MedusaConfig { heads: 2, ..MedusaConfig::default() }),
        (
            json!({"attention_bias": true, "mlp_bias": true}),
            Dtype::F16,
            MedusaConfig { blocks: 2, ..MedusaConfig::default() },
        ),
        (
            json!({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": true}),
            Dtype::BF16,
            MedusaConfig { own_lm_heads: true, ..MedusaConfig::default() },
        ),
        (
            json!({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 4}),
            Dtype::F16,
            MedusaConfig { blocks: 3, own_lm_heads: true, ..MedusaConfig::default() },
        ),
    ];
    for (more, dtype, medusa) in variants {
        let dir = tempfile::tempdir().unwrap();
        let (model, heads) = (dir.path().join("model"), dir.path().join("heads"));
        toy(&model, more.clone(), dtype);
        let small = toy_heads(&heads, &medusa);
        let grown = write(&model, &small, 1_500_000, &dir.path().join("grown")).unwrap();
        let config = ModelConfig::read(&grown.model).unwrap();
        assert_eq!((config.hidden_size, config.heads, config.kv_heads, config.head_dim), (192, 16, 8, 16));
        assert_eq!(config.parameters(), grown.parameters);
        assert!((1_200_000..1_600_000).contains(&grown.parameters), "{}", grown.parameters);
        let (before, after) =
            (logits(&model, &heads, Weights::Stored), logits(&grown.model, &grown.heads, Weights::Stored));
        assert!(before.0.iter().any(|v| v.abs() > 0.1));
        assert_eq!(before, after, "{more}");
        // One scale per output row: new numbers are no greater than old ones, so old ones keep their 8 bits. Inputs
        // have one scale per row too, which the new columns of feed-forward layers may raise: rounding differs there.
        let (before, after) =
            (logits(&model, &heads, Weights::Int8), logits(&grown.model, &grown.heads, Weights::Int8));
        let reach = before.0.iter().fold(0f32, |a, b| a.max(b.abs()));
        let off = before.0.iter().zip(&after.0).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(off < 0.05 * reach, "{more} in 8 bits: {off} of {reach}");
    }
}

/// The embedded model: equal logits and equal greedy text after every held-out prompt.
#[test]
fn the_embedded_model_keeps_its_text() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny");
    let dir = tempfile::tempdir().unwrap();
    let grown = dir.path().join("model");
    std::fs::create_dir(&grown).unwrap();
    body::write(&model, 42_000_000, &grown).unwrap();
    let (_, held_out) = prompts(dir.path()).unwrap();
    let options = Options {
        model: model.display().to_string(),
        heads: None,
        drafter: DrafterChoice::None,
        tree: None,
        prompts: held_out,
        turns: 1,
        limit: usize::MAX,
        max_new_tokens: 64,
        accept: RuleChoice::Auto,
        transform: Transform::GREEDY,
        ignore_eos: false,
    };
    let found = equality::compare(&options, &grown.display().to_string(), &settings()).unwrap();
    assert_eq!((found.prompts, found.same_text), (60, 60), "{found:?}");
    assert!(found.positions > 1000 && found.greatest_difference == 0.0, "{found:?}");
}

#[test]
fn the_embedded_model_grows_to_the_size_that_is_asked_for() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny");
    let config = sizes::grown(&ModelConfig::read(&model).unwrap(), PARAMETERS).unwrap();
    assert_eq!((config.hidden_size, config.heads, config.layers), (1024, 16, 6));
    assert!((105_000_000..115_000_000).contains(&config.parameters()), "{}", config.parameters());
    assert!(obstacle(&model, PARAMETERS).unwrap().is_none());
    assert!(obstacle(&model, 10_000_000).unwrap().unwrap().contains("and 10.0 M are asked for"));
}

#[test]
fn an_earlier_body_is_replaced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (dir.path().join("model"), dir.path().join("grown"));
    toy(&model, json!({}), Dtype::F16);
    let heads = toy_heads(&dir.path().join("heads"), &MedusaConfig::default());
    for parameters in [1_000_000, 2_000_000] {
        let grown = write(&model, &heads, parameters, &out).unwrap();
        assert!(grown.parameters.abs_diff(parameters) < 400_000, "{}", grown.parameters);
        let config: Value = serde_json::from_slice(&std::fs::read(out.join("model/config.json")).unwrap()).unwrap();
        assert_eq!(config["grown"], described(grown.parameters));
        let card = std::fs::read_to_string(out.join("model/README.md")).unwrap();
        assert!(card.contains("he same model in a body of"), "{card}");
    }
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("mine"), "mine").unwrap();
    assert!(write(&model, &heads, 1_000_000, &out).is_err());
    assert_eq!(std::fs::read(out.join("mine")).unwrap(), b"mine");
}

#[test]
fn unsuitable_models_and_heads_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (dir.path().join("model"), dir.path().join("grown"));
    toy(&model, json!({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}), Dtype::F16);
    let heads = toy_heads(&dir.path().join("heads"), &MedusaConfig::default());
    let refused = |parameters, told: &str| {
        let error = write(&model, &heads, parameters, &out).unwrap_err();
        assert!(error.message().contains(told), "{error:?}");
        assert!(!out.exists());
    };
    refused(1_000_000, "gemma2");
    toy(&model, json!({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}), Dtype::F16);
    refused(1_000_000, "qwen3");
    toy(&model, json!({"hidden_size": 64}), Dtype::F16);
    refused(1000, "and 1000 are asked for");
    // A file that ends early, and one with a number that is none.
    let path = model.join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 2]).unwrap();
    refused(2_000_000, "truncated");
    let mut infinite = whole;
    let last = infinite.len() - 2;
    infinite[last..].copy_from_slice(&[0, 0x7c]);
    std::fs::write(&path, infinite).unwrap();
    refused(2_000_000, "not finite");
}
