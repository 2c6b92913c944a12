//! A small random backbone with conversations, and what is asked of everything that is fitted to it.
#![allow(dead_code)] // each test file uses its part

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::eagle::{EagleConfig, EagleNetwork, EagleShape};
use gorgon_draft::medusa::{Heads, MedusaConfig};
use gorgon_kernels::Frozen;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::hash_file;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::MODEL_FILE;
use gorgon_train::config::{LanguageLoss, MedusaTwoConfig, Training};
use gorgon_train::llama::Llama;
use gorgon_train::lora::{Lora, LoraConfig};
use gorgon_train::methods::{
    Conversations, EagleFitting, Features, HeadFitting, MedusaTwoFitting, OnBackbone, Windows, lm_head as read_lm_head,
};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{Objective, Report, fit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};

fn example(i: usize) -> Example {
    let length = 12 + i * 5 % 17;
    let ids = (0..length).map(|t| ((t * t + 31 * i) % 250) as u32).collect();
    Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect(), corrected: None }
}

/// Twelve conversations, three of which are measured on; the backbone is written to `dir`.
pub fn conversations(dir: &Path) -> Conversations {
    SHAPE.write(dir, FloatFormat::F32, 5).unwrap();
    conversations_on(dir)
}

/// A conversation with a name and a place.
pub fn row(i: usize, example: Example) -> Row {
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
}

/// Twelve conversations, three of which are measured on, for the backbone in `dir`.
pub fn conversations_on(dir: &Path) -> Conversations {
    let decoder = Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap());
    let rows: Vec<Row> = (0..12).map(|i| row(i, example(i))).collect();
    let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
    Conversations {
        features: Features { decoder, cache: None },
        held_out: rows[..3].to_vec(),
        rows,
        packing: Packing::new(lengths, 40, 3, 1),
        base: dir.display().to_string(),
        decoded_prompts: 2,
        decoded_tokens: 12,
        init_from: None,
        windows: Windows::default(),
    }
}

/// Variant on a backbone that is gone from the disk.
pub fn loaded() -> Conversations {
    conversations(tempfile::tempdir().unwrap().path())
}

/// An LM head, with one value set.
pub fn lm_head(value: Option<f32>) -> Tensor<2> {
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let mut table: Vec<f32> = (0..d * vocab).map(|i| ((i * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.5).collect();
    table[7] = value.unwrap_or(table[7]);
    Tensor::from_data(TensorData::new(table, [vocab, d]), &Device::flex())
}

/// The loss of a step under given parameters, and its gradients.
pub fn step<O: Objective>(objective: &O, parameters: &[Parameter], number: u64) -> (f64, Vec<Vec<f32>>) {
    let batches = objective.batches(number).unwrap();
    let mut totals: Vec<f64> = vec![];
    for weights in batches.iter().map(|batch| objective.weights(batch)) {
        totals.resize(weights.len(), 0.0);
        totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
    }
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (mut loss, mut sums): (f64, Vec<Vec<f32>>) = (0.0, vec![]);
    for batch in &batches {
        let part = objective.gradients(&weights, batch, &totals).unwrap();
        loss += part.loss;
        let values: Vec<Vec<f32>> = part.gradients.into_iter().map(read).collect();
        sums = match sums.is_empty() {
            true => values,
            false => sums.iter().zip(&values).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect(),
        };
    }
    (loss, sums)
}

/// Copy of the parameters with other values, all of them small and none of them zero.
pub fn stirred(parameters: Vec<Parameter>) -> Vec<Parameter> {
    let stir = |(i, p): (usize, Parameter)| {
        let values = read(p.value.clone()).into_iter().enumerate();
        let values = values.map(|(j, v)| v + ((j * 7919 + 31 * i) % 101) as f32 / 500.0 - 0.1).collect();
        Parameter::new(&p.name, &p.shape, p.role, values, &Device::flex())
    };
    parameters.into_iter().enumerate().map(stir).collect()
}

/// Along a random direction of each parameter, the gradient is what the loss does.
pub fn assert_slopes<O: Objective>(objective: &O, parameters: &[Parameter], number: u64) {
    let (_, gradients) = step(objective, parameters, number);
    for (i, parameter) in parameters.iter().enumerate() {
        let direction: Vec<f32> =
            (0..parameter.len()).map(|j| (((j + 3 * i) * 7919 % 101) as f32 / 50.0) - 1.0).collect();
        let expected: f64 = gradients[i].iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let moved = |by: f32| {
            let mut moved = parameters.to_vec();
            let values = read(parameter.value.clone()).iter().zip(&direction).map(|(v, d)| v + by * d).collect();
            moved[i] = Parameter::new(&parameter.name, &parameter.shape, parameter.role, values, &Device::flex());
            step(objective, &moved, number).0
        };
        let by = 2e-3;
        let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
        assert!((slope - expected).abs() < 0.02 * (0.05 + slope.abs()), "{}: {expected} {slope}", parameter.name);
    }
}

pub fn training(steps: u64) -> Training {
    Training { steps, learning_rate: Some(1e-2), log_every: 1, save_every: 4, eval_every: 6, ..Training::default() }
}

/// Fits; asked to stop after `stop_at`, it is started again. Returns parameters and held-out losses.
pub fn fitted<O: Objective>(objective: &O, dir: &Path, threads: usize, stop_at: Option<u64>) -> Vec<Vec<f32>> {
    let run = RunDir::create(dir, "test").unwrap();
    let settings = training(12).settings(4, 7).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = AtomicBool::new(false);
    let mut losses = vec![];
    let mut observe = |report: Report| match report {
        Report::Step(record) => stop.store(Some(record.step) == stop_at, Ordering::Relaxed),
        Report::Evaluation(record) => losses.push(record.evaluation.loss()),
        Report::Saved(_) | Report::Note(_) => {}
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

/// Fits as [`fitted`] does, but is killed after step `at`, which no checkpoint holds, and begins again with all that is
/// not on the disk made anew.
pub fn killed<O: Objective>(objective: impl Fn() -> O, dir: &Path, at: u64) -> Vec<Vec<f32>> {
    let run = RunDir::create(dir, "test").unwrap();
    let settings = training(12).settings(4, 7).unwrap();
    let begin = |last: Option<u64>| {
        let mut observe = |report: Report| {
            let Report::Step(record) = report else { return };
            assert_ne!(Some(record.step), last, "killed");
        };
        fit(&objective(), &run, &settings, &AtomicBool::new(false), &mut observe).unwrap()
    };
    assert!(catch_unwind(AssertUnwindSafe(|| begin(Some(at)))).is_err());
    assert!(run.steps().unwrap().last().is_some_and(|&saved| saved < at));
    let outcome = begin(None);
    assert!(outcome.finished);
    outcome.parameters.into_iter().map(|p| read(p.value)).collect()
}

/// A backbone to the bit: every embedding, the states that enter each layer and leave the last one, and logits.
fn bits(decoder: &Arc<Decoder>) -> Vec<u32> {
    let (layers, ids) = (decoder.config().layers, (0..60).map(|t| t * 37 % 250).collect::<Vec<Token>>());
    let all: Vec<Token> = (0..decoder.config().vocab_size as Token).collect();
    let mut target = DecoderTarget::new(decoder.clone(), ids.len(), Hooks::new((0..layers).collect(), layers).unwrap());
    let output = target.prefill(&ids).unwrap();
    let logits = target.logits(&output.hidden).into_vec();
    let states = [decoder.embed(&all).unwrap(), output.hidden].into_iter().chain(output.hooks);
    states.flat_map(|states| states.into_values().into_vec()).chain(logits).map(f32::to_bits).collect()
}

/// Runs a fitting. The backbone in a folder and in memory, and all else that the objective does not fit, stay as they are
/// to the bit.
pub fn keeps_backbone<O: OnBackbone, T>(objective: &O, folder: &Path, run: impl FnOnce() -> T) -> T {
    let start = objective.parameters(3);
    let kept = || {
        let file = hash_file(&folder.join(MODEL_FILE)).unwrap();
        let head: &Tensor<2> = objective.lm_head();
        let head: Vec<u32> = read(head.clone()).into_iter().map(f32::to_bits).collect();
        (file, bits(&objective.data().features.decoder), head, step(objective, &start, 1))
    };
    let before = kept();
    let result = run();
    let after = kept();
    assert_eq!(before.0, after.0, "the backbone's file");
    assert!(before.1 == after.1 && before.2 == after.2, "the backbone in memory");
    assert!(before.3 == after.3, "a step from the start");
    result
}

/// Three Medusa heads.
pub fn heads(data: Conversations) -> HeadFitting {
    let config = MedusaConfig { heads: 3, ..MedusaConfig::default() };
    let (hidden_size, vocab_size) = (SHAPE.hidden_size, SHAPE.vocab_size);
    HeadFitting {
        heads: Heads { config, hidden_size, vocab_size, chunk_rows: 16 },
        lm_head: lm_head(None).into(),
        data,
        shuffle: None,
    }
}

/// An EAGLE layer.
pub fn eagle(data: Conversations) -> EagleFitting {
    EagleFitting {
        network: EagleNetwork::new(EagleShape::of(data.features.decoder.config(), true), 64),
        config: EagleConfig { fc_bias: true, noise: 0.1, cross_entropy: 0.1 },
        lm_head: lm_head(None).into(),
        chunk_rows: 16,
        seed: 3,
        data,
    }
}

/// A backbone with adapters and two Medusa heads, which is frozen in the first of eight steps and fitted in the later
/// ones. It is written to `dir`.
pub fn medusa_two(dir: &Path, language: LanguageLoss) -> MedusaTwoFitting {
    let data = conversations(dir);
    let (base, model) = (Checkpoint::open(dir).unwrap(), data.features.decoder.config().clone());
    let llama = Llama::of(&model, 64, Device::flex()).unwrap();
    let lora = LoraConfig { rank: 3, ..LoraConfig::default() };
    let heads = Heads {
        config: MedusaConfig { heads: 2, ..MedusaConfig::default() },
        hidden_size: SHAPE.hidden_size,
        vocab_size: SHAPE.vocab_size,
        chunk_rows: 16,
    };
    MedusaTwoFitting {
        heads,
        lm_head: read_lm_head(&base, &model, &Device::flex(), Some(Frozen::default())).unwrap(),
        lora: Lora::new(lora.clone(), llama.load(&base).unwrap()),
        llama,
        base,
        config: MedusaTwoConfig { lora, language, heads_weight: 0.5, ..MedusaTwoConfig::default() },
        steps: 8,
        data,
    }
}
