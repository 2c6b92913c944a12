//! LayerSkip: losses and gradients against another implementation, gradients are slopes, and neither threads nor
//! interruptions change a bit.

use crate::on_backbone;
use crate::shared;

use burn::tensor::{Device, Tensor};
use gorgon_draft::choice::DrafterChoice;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::LinearCrossEntropy;
use gorgon_model::config::ModelConfig;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{Curriculum, FittedWeights, LayerSkipConfig, TrainConfig};
use gorgon_train::llama::{Llama, Packed};
use gorgon_train::lora::{Lora, LoraConfig, NetworkWeights};
use gorgon_train::methods::layerskip::{Labelled, Network, losses};
use gorgon_train::methods::{LayerSkipFitting, OnBackbone, Skipping};
use gorgon_train::trainer::Objective;
use on_backbone::{assert_slopes, conversations, fitted, keeps_backbone, step, stirred};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;

fn config() -> LayerSkipConfig {
    LayerSkipConfig {
        dropout: 0.5,
        curriculum: Curriculum::Rotational,
        every: 2,
        exit_layer: Some(1),
        ..LayerSkipConfig::default()
    }
}

/// An adapter of rank 3.
fn adapter() -> LayerSkipConfig {
    let lora = LoraConfig { rank: 3, ..LoraConfig::default() };
    LayerSkipConfig { weights: FittedWeights::Lora, lora, ..config() }
}

/// The small random backbone, to be fitted in twelve steps.
fn fitting(dir: &Path, config: LayerSkipConfig) -> LayerSkipFitting {
    let data = conversations(dir);
    let llama = Llama::of(data.features.decoder.config(), 64, Device::flex()).unwrap();
    let start = llama.load(&Checkpoint::open(dir).unwrap()).unwrap();
    let document = serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    let weights = match config.weights {
        FittedWeights::Full => NetworkWeights::Full(start),
        FittedWeights::Lora => NetworkWeights::Lora(Lora::new(config.lora.clone(), start)),
    };
    let with = Skipping { config, chunk_rows: 16, seed: 3, steps: 12 };
    LayerSkipFitting::new(llama, weights, document, data, with).unwrap()
}

struct File(Vec<u8>);

impl File {
    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn numbers(&self, name: &str) -> Vec<i64> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor.data().chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// Two samples with their labels; -100 is none.
    fn batch(&self) -> Labelled {
        let mut batch = Labelled::default();
        for sample in 0..2 {
            let start = batch.packed.tokens.len();
            batch.packed.tokens.extend(self.numbers(&format!("sample{sample}.ids")).iter().map(|&id| id as u32));
            batch.packed.segments.push(start..batch.packed.tokens.len());
            for (row, label) in self.numbers(&format!("sample{sample}.labels")).into_iter().enumerate() {
                if let Ok(label) = u32::try_from(label) {
                    batch.rows.push((start + row) as i32);
                    batch.tokens.push(label);
                }
            }
        }
        batch
    }
}

fn mean(exit: &LinearCrossEntropy) -> f64 {
    exit.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / exit.losses.len() as f64
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn losses_and_gradients_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "layerskip") else { return };
    let document: Value = serde_json::from_slice(&std::fs::read(root.join("layerskip_train.json")).unwrap()).unwrap();
    let file = File(std::fs::read(root.join("layerskip_train.safetensors")).unwrap());
    let config = ModelConfig::read(&root.join("model")).unwrap();
    let llama = Llama::of(&config, 64, Device::flex()).unwrap();
    let parameters = llama.load(&Checkpoint::open(&root.join("model")).unwrap()).unwrap();
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let head = Table::from(weights[llama.lm_head()].clone().reshape([config.vocab_size, config.hidden_size]));
    let network = Network { llama: &llama, weights: &NetworkWeights::Full(parameters.clone()), lm_head: &head };
    let (batch, n) = (file.batch(), file.batch().rows.len() as f64);
    for case in document["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut dropped = vec![vec![false; config.layers]; 2];
        for (sample, layers) in case["dropped_layers_by_sample"].as_array().into_iter().flatten().enumerate() {
            layers.as_array().unwrap().iter().for_each(|l| dropped[sample][l.as_u64().unwrap() as usize] = true);
        }
        let exit_weights = numbers(&case["weights"]);
        let (found, gradients) = losses(network, &weights, &batch, (&exit_weights, &dropped), (Some(1.0 / n), 9));
        let own: Vec<usize> = (0..config.layers).filter(|&l| exit_weights[l] > 0.0).collect();
        assert_eq!(found.len(), own.len());
        let close = |got: f64, want: f64| (got - want).abs() < 1e-5 * want.abs();
        for (exit, &l) in found.iter().zip(&own) {
            assert!(close(mean(exit), numbers(&case["loss_by_exit"])[l]), "{name}: exit {l}");
        }
        let loss: f64 = found.iter().zip(&own).map(|(exit, &l)| exit_weights[l] * mean(exit)).sum();
        assert!(close(loss, case["loss"].as_f64().unwrap()), "{name}: {loss}");
        for (parameter, gradient) in parameters.iter().zip(gradients) {
            let gradient = read(gradient);
            let norm = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            let want = case["gradient_norms"][&parameter.name].as_f64().unwrap();
            assert!((norm - want).abs() < 1e-3 * want + 1e-6, "{name}: {}: {norm} {want}", parameter.name);
            let key = format!("{name}.grad.{}", parameter.name);
            if SafeTensors::deserialize(&file.0).unwrap().tensor(&key).is_ok() {
                for (a, b) in gradient.iter().zip(file.floats(&key)) {
                    assert!((a - b).abs() < 1e-3 * b.abs() + 1e-6, "{key}: {a} {b}");
                }
            }
        }
    }
}

/// Without dropout and with the last exit alone, the states are those of the whole model, bit for bit.
#[test]
fn the_last_exit_is_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let data = conversations(dir.path());
    let llama = Llama::of(data.features.decoder.config(), 64, Device::flex()).unwrap();
    let parameters = llama.load(&Checkpoint::open(dir.path()).unwrap()).unwrap();
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone().autodiff()).collect();
    let packed = Packed { tokens: (1..20).collect(), segments: vec![0..8, 8..19] };
    let kept = vec![vec![false; 2]; 2];
    let last = llama.exits(&weights, &packed, &[false, true], &kept);
    assert_eq!(read(last[0].clone().inner()), read(llama.hidden(&weights, &packed).inner()));
    // A dialogue that leaves a layer out changes nothing of the other one.
    let dropped = [vec![false, false], vec![true, false]];
    let other = read(llama.exits(&weights, &packed, &[false, true], &dropped)[0].clone().inner());
    let whole = read(last[0].clone().inner());
    let first = 8 * data.features.decoder.config().hidden_size;
    assert_eq!(other[..first], whole[..first]);
    assert_ne!(other[first..], whole[first..]);
}

#[test]
fn gradients_are_slopes() {
    let dir = tempfile::tempdir().unwrap();
    for curriculum in [Curriculum::Rotational, Curriculum::All] {
        let objective = fitting(dir.path(), LayerSkipConfig { curriculum, ..config() });
        assert_slopes(&objective, &objective.parameters(3), 4);
    }
    let objective = fitting(dir.path(), LayerSkipConfig { curriculum: Curriculum::All, ..adapter() });
    assert_slopes(&objective, &stirred(objective.parameters(3)), 4);
}

/// An adapter begins as none; its gradients are those of the whole model's matrices, through the adapter.
#[test]
fn an_adapter_begins_as_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let (full, lora) = (fitting(dir.path(), config()), fitting(dir.path(), adapter()));
    let (whole, found) = (step(&full, &full.parameters(0), 5), step(&lora, &lora.parameters(0), 5));
    assert!((whole.0 - found.0).abs() < 1e-6 * whole.0, "{} {}", whole.0, found.0);
    // `dB = (α / r) · dW Aᵀ`, and `dA = 0` while `B` is zero.
    let (parameters, matrices) = (lora.parameters(0), full.parameters(0));
    for (pair, gradients) in parameters.chunks_exact(2).zip(found.1.chunks_exact(2)) {
        let name = pair[0].name.strip_prefix("base_model.model.").unwrap().replace(".lora_A", "");
        let at = matrices.iter().position(|p| p.name == name).unwrap();
        let (rank, into, a) = (pair[0].shape[0], pair[0].shape[1], read(pair[0].value.clone()));
        assert!(gradients[0].iter().all(|&g| g == 0.0), "{name}");
        for (i, &got) in gradients[1].iter().enumerate() {
            let (row, column) = (i / rank, i % rank);
            let of = |k: usize| f64::from(whole.1[at][row * into + k]) * f64::from(a[column * into + k]);
            let want = 16.0 / rank as f64 * (0..into).map(of).sum::<f64>();
            assert!((f64::from(got) - want).abs() < 1e-3 * want.abs() + 1e-5, "{name} {i}: {got} {want}");
        }
    }
}

/// Layers are left out by step and conversation alone.
#[test]
fn dropout_is_a_function_of_step_and_seed() {
    let dir = tempfile::tempdir().unwrap();
    let (objective, again) = (fitting(dir.path(), config()), fitting(dir.path(), config()));
    let parameters = objective.parameters(0);
    assert_eq!(step(&objective, &parameters, 5), step(&again, &parameters, 5));
    let without = fitting(dir.path(), LayerSkipConfig { dropout: 0.0, ..config() });
    assert_ne!(step(&objective, &parameters, 5).0, step(&without, &parameters, 5).0);
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let model = tempfile::tempdir().unwrap();
    let objective = fitting(model.path(), config());
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let objective = fitting(model.path(), adapter());
    let one = keeps_backbone(&objective, model.path(), || fitted(&objective, dir.path(), 1, None));
    assert_eq!(one, fitted(&objective, dir.path(), 3, Some(5)));
}

/// A published model decodes with its own early layers.
#[test]
fn the_published_model_drafts_for_itself() {
    let (model, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = fitting(model.path(), config());
    let step = run.path().join("step");
    std::fs::create_dir(&step).unwrap();
    gorgon_train::checkpoint::write_parameters(&step, &objective.parameters(0), &[]).unwrap();
    std::fs::write(step.join("config.json"), objective.document().unwrap().to_string()).unwrap();
    objective.publish(&step, run.path()).unwrap();
    let served = objective.served(run.path()).unwrap().unwrap();
    assert_eq!(served.features.decoder.config().layers, 2);
    assert_eq!(objective.drafter().unwrap().to_string(), "early-exit:1");
    assert!(matches!("early-exit:1".parse(), Ok(DrafterChoice::TrainingFree(_))));
}

/// A fitted adapter is published as PEFT reads it, and the model with it in place: its states are the network's.
#[test]
fn an_adapter_is_in_the_published_model() {
    let (model, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = fitting(model.path(), adapter());
    let step = run.path().join("step");
    std::fs::create_dir(&step).unwrap();
    let parameters = stirred(objective.parameters(0));
    gorgon_train::checkpoint::write_parameters(&step, &parameters, &[]).unwrap();
    assert!(objective.document().is_none());
    objective.publish(&step, run.path()).unwrap();
    assert!(run.path().join("adapter/adapter_config.json").is_file());
    let llama = Llama::of(&ModelConfig::read(model.path()).unwrap(), 64, Device::flex()).unwrap();
    let start = llama.load(&Checkpoint::open(model.path()).unwrap()).unwrap();
    let lora = Lora::new(adapter().lora, start);
    let adapter: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let published = llama.load(&Checkpoint::open(&run.path().join("model")).unwrap()).unwrap();
    for (got, want) in published.into_iter().zip(lora.applied(&adapter, false)) {
        assert_eq!(read(got.value), read(want), "{}", got.name);
    }
    assert_eq!(objective.served(run.path()).unwrap().unwrap().features.decoder.config().layers, 2);
}

#[test]
fn settings_are_checked() {
    let of = |more: &str| {
        let text = format!(r#"{{"method": "layerskip", "model": "m", "data": "d"{more}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().check().map_err(|error| error.to_string())
    };
    assert_eq!(of(""), Ok(()));
    for (more, word) in [
        (r#", "layerskip": {"dropout": 2}"#, "layerskip.dropout = 2"),
        (r#", "layerskip": {"weights": "lora", "lora": {"rank": 0}}"#, "layerskip.lora.rank = 0"),
        (r#", "cache_features": true"#, "cache_features = true: layerskip fits the model itself"),
        (r#", "init_from": "x""#, "layerskip does not start from heads"),
    ] {
        assert!(of(more).unwrap_err().contains(word), "{}", of(more).unwrap_err());
    }
}

/// A public checkpoint's config is that of a plain Llama: nothing in it tells the exit.
#[test]
fn public_configs_are_read() {
    let document = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
        "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "float32",
        "transformers_version": "4.47.1", "use_cache": true, "vocab_size": 128256}"#;
    let config = ModelConfig::from_json(&serde_json::from_str(document).unwrap()).unwrap();
    let Ok(DrafterChoice::TrainingFree(exit)) = "early-exit:8".parse() else { panic!("no drafter") };
    assert_eq!((config.layers, exit.check(&config)), (16, Ok(())));
    assert_eq!(LayerSkipConfig::default().drafting(config.layers), Ok(4));
    // llama2-7B, 13B and 70B, codellama-7B and 34B, llama3-8B: layers, the widths, heads, vocabulary, positions and base.
    for (layers, [hidden, inner], [heads, kv_heads], vocab, positions, base) in [
        (32, [4096, 11_008], [32, 32], 32_000, 4096, 1e4),
        (40, [5120, 13_824], [40, 40], 32_000, 4096, 1e4),
        (80, [8192, 28_672], [64, 8], 32_000, 4096, 1e4),
        (32, [4096, 11_008], [32, 32], 32_016, 16_384, 1e6),
        (48, [8192, 22_016], [64, 8], 32_000, 16_384, 1e6),
        (32, [4096, 14_336], [32, 8], 128_256, 8192, 5e5),
    ] {
        let document = serde_json::json!({
            "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
            "eos_token_id": 2, "hidden_act": "silu", "hidden_size": hidden, "intermediate_size": inner, "mlp_bias": false,
            "max_position_embeddings": positions, "model_type": "llama", "num_attention_heads": heads,
            "num_hidden_layers": layers, "num_key_value_heads": kv_heads, "pretraining_tp": 1, "rms_norm_eps": 1e-5,
            "rope_scaling": null, "rope_theta": base, "tie_word_embeddings": false, "torch_dtype": "float16",
            "use_cache": true, "vocab_size": vocab
        });
        let config = ModelConfig::from_json(&document).unwrap();
        let found = (config.layers, config.hidden_size, config.vocab_size, config.max_positions);
        assert_eq!((found, exit.check(&config)), ((layers, hidden, vocab, positions), Ok(())));
    }
}
