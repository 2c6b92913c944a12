//! LayerSkip: losses and gradients against another implementation, gradients are slopes, and neither threads nor
//! interruptions change a bit.

mod on_backbone;
#[path = "../../core/tests/shared/mod.rs"]
mod shared;

use burn::tensor::{Device, Tensor};
use gorgon_draft::choice::DrafterChoice;
use gorgon_kernels::linear_cross_entropy::LinearCrossEntropy;
use gorgon_model::config::ModelConfig;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{Curriculum, LayerSkipConfig, TrainConfig};
use gorgon_train::llama::{Llama, Packed};
use gorgon_train::methods::layerskip::{Labelled, losses};
use gorgon_train::methods::{LayerSkipFitting, OnBackbone, Skipping};
use gorgon_train::trainer::Objective;
use on_backbone::{assert_slopes, conversations, fitted, step};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;

const CONFIG: LayerSkipConfig = LayerSkipConfig {
    dropout: 0.5,
    rising: false,
    exit_scale: 1.0,
    curriculum: Curriculum::Rotational,
    every: 2,
    exit_layer: Some(1),
};

/// The small random backbone, to be fitted in twelve steps.
fn fitting(dir: &Path, config: LayerSkipConfig) -> LayerSkipFitting {
    let data = conversations(dir);
    let llama = Llama::of(data.features.decoder.config(), 64, Device::flex()).unwrap();
    let start = llama.load(&Checkpoint::open(dir).unwrap()).unwrap();
    let document = serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    let with = Skipping { config, chunk_rows: 16, seed: 3, steps: 12 };
    LayerSkipFitting::new(llama, start, document, data, with).unwrap()
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

#[test]
fn losses_and_gradients_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/early_exit", "layerskip") else { return };
    let document: Value = serde_json::from_slice(&std::fs::read(root.join("layerskip_train.json")).unwrap()).unwrap();
    let file = File(std::fs::read(root.join("layerskip_train.safetensors")).unwrap());
    let config = ModelConfig::read(&root.join("model")).unwrap();
    let llama = Llama::of(&config, 64, Device::flex()).unwrap();
    let parameters = llama.load(&Checkpoint::open(&root.join("model")).unwrap()).unwrap();
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (batch, n) = (file.batch(), file.batch().rows.len() as f64);
    for case in document["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let numbers = |key: &str| -> Vec<f64> {
            case[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let mut dropped = vec![vec![false; config.layers]; 2];
        for (sample, layers) in case["dropped_layers_by_sample"].as_array().into_iter().flatten().enumerate() {
            layers.as_array().unwrap().iter().for_each(|l| dropped[sample][l.as_u64().unwrap() as usize] = true);
        }
        let exit_weights = numbers("weights");
        let (found, gradients) = losses(&llama, &weights, &batch, (&exit_weights, &dropped), (Some(1.0 / n), 9));
        let own: Vec<usize> = (0..config.layers).filter(|&l| exit_weights[l] > 0.0).collect();
        assert_eq!(found.len(), own.len());
        let close = |got: f64, want: f64| (got - want).abs() < 1e-5 * want.abs();
        for (exit, &l) in found.iter().zip(&own) {
            assert!(close(mean(exit), numbers("loss_by_exit")[l]), "{name}: exit {l}");
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
                    assert!((a - b).abs() < 1e-3 * b.abs() + 1e-5, "{key}: {a} {b}");
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
        let objective = fitting(dir.path(), LayerSkipConfig { curriculum, ..CONFIG });
        assert_slopes(&objective, &objective.parameters(3), 4);
    }
}

/// Layers are left out by step and conversation alone.
#[test]
fn dropout_is_a_function_of_step_and_seed() {
    let dir = tempfile::tempdir().unwrap();
    let (objective, again) = (fitting(dir.path(), CONFIG), fitting(dir.path(), CONFIG));
    let parameters = objective.parameters(0);
    assert_eq!(step(&objective, &parameters, 5), step(&again, &parameters, 5));
    let without = fitting(dir.path(), LayerSkipConfig { dropout: 0.0, ..CONFIG });
    assert_ne!(step(&objective, &parameters, 5).0, step(&without, &parameters, 5).0);
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let model = tempfile::tempdir().unwrap();
    let objective = fitting(model.path(), CONFIG);
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
}

/// A published model decodes with its own early layers.
#[test]
fn the_published_model_drafts_for_itself() {
    let (model, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = fitting(model.path(), CONFIG);
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

#[test]
fn settings_are_checked() {
    let of = |more: &str| {
        let text = format!(r#"{{"method": "layerskip", "model": "m", "data": "d"{more}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().check().map_err(|error| error.to_string())
    };
    assert_eq!(of(""), Ok(()));
    for (more, word) in [
        (r#", "layerskip": {"dropout": 2}"#, "layerskip.dropout = 2"),
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
}
