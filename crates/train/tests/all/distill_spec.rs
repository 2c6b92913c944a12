//! DistillSpec: gradients are slopes, written answers come back, and neither threads nor interruptions change a bit.

use burn::tensor::{Device, Tensor};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_kernels::Frozen;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{Answers, DistillSpecConfig, Measure, Training};
use gorgon_train::error::TrainError;
use gorgon_train::llama::Llama;
use gorgon_train::methods::{
    Conversations, DistillSpecFitting, Distilled, Earlier, Features, OnBackbone, Windows, lm_head,
};
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::write_model;
use gorgon_train::trainer::{Objective, Purpose, Report, fit};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TARGET: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};
const DRAFT: LlamaShape = LlamaShape { hidden_size: 8, intermediate_size: 12, layers: 1, heads: 2, ..TARGET };

fn rows() -> Vec<Row> {
    let row = |i: usize| {
        let length = 12 + i * 5 % 17;
        let ids = (0..length).map(|t| ((t * t + 31 * i) % 250) as u32).collect();
        let example = Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect(), corrected: None };
        Row {
            row: i as u64,
            key: i as u64,
            id: format!("conversation-{i}"),
            source: "somewhere.jsonl".into(),
            line: 100 + i as u64,
            category: None,
            example,
            ends: vec!["end_token".into()],
            shard: "shard-00042.parquet".into(),
        }
    };
    (0..12).map(row).collect()
}

/// A draft model with embeddings of its own at both ends, or with one table for both.
fn draft(dir: &Path, tied: bool) {
    match tied {
        false => DRAFT.write(dir, FloatFormat::F32, 6).unwrap(),
        true => {
            let llama = Llama::new(DRAFT, Device::flex());
            let mut parameters = llama.parameters(6);
            for p in parameters.iter_mut().filter(|p| p.shape.len() == 2) {
                let values = read(p.value.clone()).iter().map(|v| v * 10.0).collect();
                p.value = Parameter::new("", &p.shape, p.role, values, &Device::flex()).value;
            }
            write_model(dir, &DRAFT, &parameters, [256, 257]).unwrap();
        }
    }
}

fn fitting(config: DistillSpecConfig, tied: bool) -> DistillSpecFitting {
    let (dir, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    TARGET.write(dir.path(), FloatFormat::F32, 5).unwrap();
    draft(small.path(), tied);
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let device = decoder.compute().device().clone();
    let head =
        lm_head(&Checkpoint::open(dir.path()).unwrap(), decoder.config(), &device, Some(Frozen::default())).unwrap();
    let llama = Llama::of(&ModelConfig::read(small.path()).unwrap(), 64, device).unwrap();
    let start = llama.load(&Checkpoint::open(small.path()).unwrap()).unwrap();
    assert_eq!(start.last().unwrap().name == "lm_head.weight", !tied);
    let bytes = std::fs::read(small.path().join("config.json")).unwrap();
    let rows = rows();
    let data = Conversations {
        features: Features { decoder, cache: None },
        held_out: rows[..3].to_vec(),
        packing: Packing::new(rows.iter().map(|row| row.example.ids.len()).collect(), 40, 3, 1),
        rows,
        base: "somewhere".into(),
        decoded_prompts: 2,
        decoded_tokens: 12,
        init_from: None,
        windows: Windows::default(),
    };
    let earlier = Earlier::default();
    let with = Distilled { config, lm_head: head, chunk_rows: 16, seed: 3, longest: 32, earlier, data };
    DistillSpecFitting::new(llama, start, serde_json::from_slice(&bytes).unwrap(), with)
}

fn config(divergence: Measure, answers: Answers) -> DistillSpecConfig {
    DistillSpecConfig { divergence, answers, beta: 0.3, every: 4, max_new_tokens: 9, ..DistillSpecConfig::default() }
}

/// The loss of a step under given parameters, and its gradients.
fn step(objective: &DistillSpecFitting, parameters: &[Parameter]) -> (f64, Vec<Vec<f32>>) {
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

/// The first round is planned with what the draft model writes as it is, later ones with answers as long as the data's,
/// which are four tokens after prompts of five; memory always with what it writes.
#[test]
fn later_rounds_are_planned_with_answers_as_long_as_the_datas() {
    let objective = fitting(config(Measure::Fkl, Answers::Draft), false);
    assert_eq!(objective.phases(10), [0..4, 4..10]);
    assert_eq!(objective.phases(3).len(), 1);
    assert_eq!(fitting(config(Measure::Fkl, Answers::Data), false).phases(10).len(), 1);
    let parameters = objective.parameters(3);
    let tokens = |steps: &[u64], purpose| {
        objective.end_dry_run();
        objective.prepare_dry_run(steps, purpose, &parameters).unwrap();
        let of = |step: &u64| {
            let batches = objective.batches(*step).unwrap();
            let rows = objective.data().packing.step(*step).iter().map(Vec::len).sum::<usize>();
            (batches.iter().map(|batch| objective.size(batch).tokens).sum::<usize>(), rows)
        };
        steps.iter().map(of).collect::<Vec<_>>()
    };
    let (first, later) = (tokens(&[0], Purpose::Time)[0], tokens(&[5], Purpose::Time)[0]);
    assert_eq!(later.0, 9 * later.1);
    assert!(first.0 > 9 * first.1, "{first:?}");
    assert_eq!(tokens(&[0], Purpose::Memory), [first]);
    assert!(tokens(&[5], Purpose::Memory)[0].0 > later.0);
    // What was made before stays until the dry run ends.
    objective.prepare_dry_run(&[0], Purpose::Time, &parameters).unwrap();
    assert!(objective.batches(5).is_ok());
    objective.end_dry_run();
    assert!(objective.batches(5).unwrap().iter().map(|batch| objective.size(batch).tokens).sum::<usize>() > 0);
}

/// Along random directions of every parameter, gradients are what the loss does.
#[test]
fn gradients_are_slopes() {
    for (divergence, tied) in
        [(Measure::Fkl, false), (Measure::Rkl, true), (Measure::Jsd, true), (Measure::Tvd, false), (Measure::Fkl, true)]
    {
        let objective = fitting(config(divergence, Answers::Data), tied);
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
            let by = 1e-3;
            let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
            let name = &parameter.name;
            assert!(
                (slope - expected).abs() < 0.03 * (0.02 + slope.abs()),
                "{divergence:?} {name}: {expected} {slope}"
            );
        }
    }
}

fn training() -> Training {
    Training { steps: 12, learning_rate: Some(1e-2), log_every: 1, save_every: 4, eval_every: 6, ..Training::default() }
}

/// Fits; asked to stop after `stop_at`, it is started again with everything in memory gone. Returns parameters and the
/// steps' losses.
fn fitted(config: &DistillSpecConfig, dir: &Path, threads: usize, stop_at: Option<u64>) -> (Vec<Vec<f32>>, Vec<f64>) {
    let run = RunDir::create(dir, "test").unwrap();
    let settings = training().settings(4, 7).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = AtomicBool::new(false);
    let mut losses = vec![];
    let mut observe = |report: Report| {
        if let Report::Step(record) = report {
            stop.store(Some(record.step) == stop_at, Ordering::Relaxed);
            losses.push(record.loss);
        }
    };
    let mut once = || {
        let mut objective = fitting(config.clone(), true);
        objective.attach(run.path());
        pool.install(|| fit(&objective, &run, &settings, &stop, &mut observe)).unwrap()
    };
    let mut outcome = once();
    if stop_at.is_some() {
        assert!(!outcome.finished);
        outcome = once();
    }
    assert!(outcome.finished);
    (outcome.parameters.into_iter().map(|p| read(p.value)).collect(), losses)
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    for answers in [Answers::Data, Answers::Draft] {
        let config = config(Measure::Fkl, answers);
        let (one, losses) = fitted(&config, dir.path(), 1, None);
        assert!(losses.last() < losses.first(), "{losses:?}");
        assert_eq!(one, fitted(&config, dir.path(), 3, None).0);
        // In the midst of a round, and between two.
        for stop_at in [5, 8] {
            let (again, parts) = fitted(&config, dir.path(), 2, Some(stop_at));
            assert_eq!((&one, &losses), (&again, &parts), "stopped after {stop_at}");
        }
    }
}

/// Answers of the draft model stand where the first answer stood, differ from round to round, and are kept.
#[test]
fn written_answers_follow_their_prompts() {
    let dir = tempfile::tempdir().unwrap();
    let mut objective = fitting(config(Measure::Tvd, Answers::Draft), false);
    objective.attach(dir.path());
    let parameters = objective.parameters(0);
    let tokens_of = |objective: &DistillSpecFitting, step: u64| {
        let batches = objective.batches(step).unwrap();
        batches.iter().map(|batch| objective.weights(batch)[0] as usize).collect::<Vec<_>>()
    };
    let planned = tokens_of(&objective, 0);
    objective.prepare(0, &parameters).unwrap();
    let written = tokens_of(&objective, 0);
    assert_ne!(planned, written);
    let stored: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("answers-000000.json")).unwrap()).unwrap();
    let rows = rows();
    let answers = stored["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 12, "four steps see every conversation");
    for answer in answers {
        let (index, prompt) = (answer[0].as_u64().unwrap() as usize, answer[1].as_u64().unwrap() as usize);
        let ids: Vec<u32> = serde_json::from_value(answer[2].clone()).unwrap();
        assert_eq!(ids[..prompt], rows[index].example.ids[..prompt]);
        assert_eq!(rows[index].example.assistant.iter().position(|own| *own), Some(prompt));
        assert!(ids.len() > prompt && ids.len() <= (prompt + 9).min(32));
    }
    // The same parameters write the same in a later run; in the midst of a round what was written has to be there.
    let mut again = fitting(config(Measure::Tvd, Answers::Draft), false);
    again.attach(dir.path());
    again.prepare(2, &parameters).unwrap();
    assert_eq!(tokens_of(&again, 0), written);
    let error = again.prepare(6, &parameters).unwrap_err();
    assert!(matches!(&error, TrainError::Checkpoint { .. }) && error.to_string().contains("answers-000001"), "{error}");
    again.prepare(4, &parameters).unwrap();
    again.prepare(6, &parameters).unwrap();
    assert!(dir.path().join("answers-000001.json").is_file());
    assert!(again.batches(8).is_err() || again.batches(4).is_ok());
}

#[test]
fn settings_that_cannot_be_are_named() {
    let good = DistillSpecConfig { draft: "somewhere".into(), ..DistillSpecConfig::default() };
    assert!(good.check().is_ok());
    for (bad, key) in [
        (DistillSpecConfig::default(), "draft"),
        (DistillSpecConfig { beta: 1.0, ..good.clone() }, "beta"),
        (DistillSpecConfig { beta: f32::NAN, ..good.clone() }, "beta"),
        (DistillSpecConfig { every: 0, ..good.clone() }, "every"),
        (DistillSpecConfig { max_new_tokens: 0, ..good.clone() }, "max_new_tokens"),
        (DistillSpecConfig { temperature: -1.0, ..good.clone() }, "temperature"),
    ] {
        assert!(bad.check().unwrap_err().to_string().contains(&format!("distill_spec.{key}")));
    }
}
