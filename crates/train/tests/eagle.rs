//! Fitting an EAGLE draft layer: gradients are slopes, and neither threads nor interruptions change a bit.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::eagle::{EagleConfig, EagleNetwork, EagleShape};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{TrainConfig, Training};
use gorgon_train::error::TrainError;
use gorgon_train::heads::{Conversations, EagleFitting, FeatureCache, Features, OnBackbone};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{Objective, Report, fit};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};

fn examples(n: usize) -> Vec<Example> {
    let example = |i: usize| {
        let length = 12 + i * 5 % 17;
        let ids = (0..length).map(|t| ((t * t + 31 * i) % 250) as u32).collect();
        Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect() }
    };
    (0..n).map(example).collect()
}

fn fitting(lm_head_value: Option<f32>, noise: f64) -> EagleFitting {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let mut table: Vec<f32> = (0..d * vocab).map(|i| ((i * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.5).collect();
    table[7] = lm_head_value.unwrap_or(table[7]);
    let row = |(i, example): (usize, Example)| Row {
        row: i as u64,
        id: format!("conversation-{i}"),
        source: "somewhere.jsonl".into(),
        line: 100 + i as u64,
        category: None,
        example,
        ends: vec!["end_token".into()],
        shard: "shard-00042.parquet".into(),
    };
    let rows: Vec<Row> = examples(12).into_iter().enumerate().map(row).collect();
    let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
    EagleFitting {
        network: EagleNetwork::new(EagleShape::of(decoder.config(), true), 64),
        config: EagleConfig { fc_bias: true, noise, cross_entropy: 0.1 },
        lm_head: Tensor::from_data(TensorData::new(table, [vocab, d]), &Device::flex()),
        chunk_rows: 16,
        seed: 3,
        data: Conversations {
            features: Features { decoder, cache: None },
            held_out: rows[..3].to_vec(),
            rows,
            packing: Packing::new(lengths, 40, 3, 1),
            base: "somewhere".into(),
            decoded_prompts: 2,
            decoded_tokens: 12,
        },
    }
}

/// The loss of a step under given parameters, and its gradients.
fn step(objective: &EagleFitting, parameters: &[Parameter]) -> (f64, Vec<Vec<f32>>) {
    let batches = objective.batches(4).unwrap();
    let total: f64 = batches.iter().map(|batch| objective.weights(batch)[0]).sum();
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (mut loss, mut sums) = (0.0, vec![]);
    for batch in &batches {
        let part = objective.gradients(&weights, batch, &[total]).unwrap();
        loss += part.loss;
        let values: Vec<Vec<f32>> = part.gradients.into_iter().map(read).collect();
        sums = match sums.is_empty() {
            true => values,
            false => sums.iter().zip(&values).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect(),
        };
    }
    (loss, sums)
}

/// Along random directions, gradients are what the loss does; noise is the same whenever a step is asked for.
#[test]
fn gradients_are_slopes() {
    for noise in [0.0, 0.1] {
        let objective = fitting(None, noise);
        let parameters = objective.parameters(3);
        let (_, gradients) = step(&objective, &parameters);
        for (i, parameter) in parameters.iter().enumerate() {
            let direction: Vec<f32> =
                (0..parameter.len()).map(|j| (((j + 3 * i) * 7919 % 101) as f32 / 50.0) - 1.0).collect();
            let expected: f64 = gradients[i].iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            let moved = |by: f32| {
                let mut moved = parameters.clone();
                let values: Vec<f32> =
                    read(parameter.value.clone()).iter().zip(&direction).map(|(v, d)| v + by * d).collect();
                moved[i] = Parameter::new(&parameter.name, &parameter.shape, parameter.role, values, &Device::flex());
                step(&objective, &moved).0
            };
            let by = 2e-3;
            let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
            assert!((slope - expected).abs() < 0.02 * (0.05 + slope.abs()), "{}: {expected} {slope}", parameter.name);
        }
    }
    assert_ne!(
        step(&fitting(None, 0.1), &fitting(None, 0.1).parameters(3)).0,
        step(&fitting(None, 0.0), &fitting(None, 0.0).parameters(3)).0
    );
}

fn training(steps: u64) -> Training {
    Training { steps, learning_rate: Some(1e-2), log_every: 1, save_every: 4, eval_every: 6, ..Training::default() }
}

/// Fits; asked to stop after `stop_at`, it is started again. Returns parameters and held-out losses.
fn fitted(objective: &EagleFitting, dir: &Path, threads: usize, stop_at: Option<u64>) -> Vec<Vec<f32>> {
    let run = RunDir::create(dir, "test").unwrap();
    let settings = training(12).settings(4, 7).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = AtomicBool::new(false);
    let mut losses = vec![];
    let mut observe = |report: Report| match report {
        Report::Step(record) => stop.store(record["step"].as_u64() == stop_at, Ordering::Relaxed),
        Report::Evaluation(record) => losses.push(record["evaluation"]["loss"].as_f64().unwrap()),
        Report::Saved(_) => {}
    };
    let mut outcome = pool.install(|| fit(objective, &run, &settings, &stop, &mut observe)).unwrap();
    if stop_at.is_some() {
        assert!(!outcome.finished);
        outcome = pool.install(|| fit(objective, &run, &settings, &stop, &mut observe)).unwrap();
    }
    assert!(outcome.finished);
    assert!(losses.last() < losses.first(), "{losses:?}");
    outcome.parameters.into_iter().map(|p| read(p.value)).collect()
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(None, 0.1);
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let mut cached = fitting(None, 0.1);
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data.rows.as_slice(), cached.data.held_out.as_slice()];
    let path = dir.path().join("features.f32");
    let cache = FeatureCache::build(&path, &cached.data.features, rows, of, &mut |_| ()).unwrap();
    cached.data.features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
}

/// Everything is read up to the feature at the last token before the assistant's last one.
#[test]
fn positions_reach_to_the_last_feature_that_is_guessed() {
    let objective = fitting(None, 0.0);
    let example = |mask: &[u8]| Example {
        ids: (0..mask.len() as u32).collect(),
        assistant: mask.iter().map(|&own| own == 1).collect(),
    };
    assert_eq!(objective.positions(&example(&[0, 0, 0, 0, 1, 1, 1, 0, 0])), [0, 1, 2, 3, 4, 5]);
    assert_eq!(objective.positions(&example(&[0, 0, 1])), [0, 1]);
    assert!(objective.positions(&example(&[0, 1])).is_empty());
    assert!(objective.positions(&example(&[0, 0, 0])).is_empty());
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let objective = fitting(Some(f32::NAN), 0.1);
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training(3).settings(1, 0).unwrap();
    let error = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { step: 0, .. }));
    let said = error.to_string();
    for word in ["shard-00042.parquet", "row ", "conversation-", "somewhere.jsonl line 10"] {
        assert!(said.contains(word), "{said}");
    }
}

/// The paper's optimizer settings are EAGLE's defaults; what a config says goes first.
#[test]
fn defaults_are_the_papers() {
    let config = |method: &str, more: &str| -> TrainConfig {
        let text = format!(r#"{{"method": "{method}", "model": "m", "data": "d", "training": {{{more}}}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().resolved()
    };
    let eagle = config("eagle", "");
    let settings = eagle.training.settings(10, 0).unwrap();
    assert_eq!((settings.schedule.peak, settings.clip_norm), (3e-5, 0.5));
    assert_eq!((eagle.training.learning_rate, eagle.training.betas), (Some(3e-5), (0.9, 0.95)));
    assert_eq!((eagle.eagle.noise, eagle.eagle.cross_entropy, eagle.eagle.fc_bias), (0.1, 0.1, false));
    assert_eq!(config("eagle", r#""learning_rate": 1e-3"#).training.learning_rate, Some(1e-3));
    assert_eq!(config("medusa", "").training.learning_rate, Some(1e-3));
    assert_eq!(config("medusa", "").training.clip_norm, Some(1.0));
}
