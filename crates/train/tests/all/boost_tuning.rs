//! Collective boost-tuning: a draft model is fitted where the one before it fails.

use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_kernels::Frozen;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::tensors;
use gorgon_train::config::{Answers, DistillSpecConfig, Training};
use gorgon_train::llama::Llama;
use gorgon_train::methods::{Conversations, DistillSpecFitting, Distilled, Earlier, Features, Windows, lm_head};
use gorgon_train::trainer::{Objective, fit};
use safetensors::Dtype;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const VOCAB: usize = 32;
const TARGET: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 8,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: VOCAB,
    max_positions: 64,
};
/// One layer, and too narrow for the whole language.
const DRAFT: LlamaShape = LlamaShape { hidden_size: 4, intermediate_size: 4, heads: 1, ..TARGET };
/// The tokens of the language's two modes; in each of them they follow each other in a circle.
const MODES: [std::ops::Range<u32>; 2] = [4..11, 16..23];
/// The length of a text.
const LENGTH: usize = 24;

fn next(token: Token) -> Token {
    let mode = MODES.iter().find(|mode| mode.contains(&token));
    mode.map_or(0, |mode| mode.start + (token + 3 - mode.start) % 7)
}

/// A model of the language: no layer adds anything, and the LM head has the state of a token in the row of the next.
fn target(dir: &Path) {
    TARGET.write(dir, FloatFormat::F32, 5).unwrap();
    let checkpoint = Checkpoint::open(dir).unwrap();
    let embedding = checkpoint.read_all("model.embed_tokens.weight").unwrap();
    let d = TARGET.hidden_size;
    let mut head = vec![0.0; VOCAB * d];
    for token in MODES.into_iter().flatten() {
        let state = &embedding[token as usize * d..][..d];
        let size = state.iter().map(|x| x * x).sum::<f32>().sqrt();
        let row = &mut head[next(token) as usize * d..][..d];
        row.iter_mut().zip(state).for_each(|(w, x)| *w += 1.8 * x / size);
    }
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = checkpoint
        .entries()
        .iter()
        .map(|(name, entry)| {
            let mut values = checkpoint.read_all(name).unwrap();
            if name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") {
                values.fill(0.0);
            }
            (name.clone(), entry.shape.clone(), if name == "lm_head.weight" { head.clone() } else { values })
        })
        .collect();
    drop(checkpoint);
    let sources = tensors.iter().map(|(name, shape, values)| tensors::Source {
        name: name.clone(),
        dtype: Dtype::F32,
        shape: shape.clone(),
        fill: Box::new(|file| tensors::write_f32(file, values)),
    });
    tensors::write(&dir.join("model.safetensors"), &sources.collect::<Vec<_>>()).unwrap();
}

/// Texts of the language, of which one in four is of the second mode.
fn rows() -> Vec<Row> {
    let row = |i: usize| {
        let mode = &MODES[usize::from(i % 4 == 3)];
        let first = mode.start + (i as u32 * 5) % 7;
        let ids: Vec<Token> = std::iter::successors(Some(first), |&token| Some(next(token))).take(LENGTH).collect();
        let example = Example { ids, assistant: (0..LENGTH).map(|t| t > 0).collect(), corrected: None };
        Row {
            row: i as u64,
            key: i as u64,
            id: format!("text-{i}"),
            source: "somewhere.jsonl".into(),
            line: i as u64,
            category: None,
            example,
            ends: vec!["end_token".into()],
            shard: "shard-00000.parquet".into(),
        }
    };
    (0..16).map(row).collect()
}

fn load(dir: &Path) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

fn fitting(seed: u64, earlier: Earlier, rows: Vec<Row>) -> DistillSpecFitting {
    let (dir, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    target(dir.path());
    DRAFT.write(small.path(), FloatFormat::F32, seed).unwrap();
    let decoder = load(dir.path());
    let device = decoder.compute().device().clone();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let head = lm_head(&checkpoint, decoder.config(), &device, Some(Frozen::default())).unwrap();
    let llama = Llama::of(&ModelConfig::read(small.path()).unwrap(), 64, device).unwrap();
    let start = llama.load(&Checkpoint::open(small.path()).unwrap()).unwrap();
    let document = serde_json::from_slice(&std::fs::read(small.path().join("config.json")).unwrap()).unwrap();
    let data = Conversations {
        features: Features { decoder, cache: None },
        held_out: rows[..2].to_vec(),
        packing: Packing::new(rows.iter().map(|row| row.example.ids.len()).collect(), 4 * LENGTH, 2, 1),
        rows,
        base: "somewhere".into(),
        decoded_prompts: 1,
        decoded_tokens: 4,
        init_from: None,
        windows: Windows::default(),
    };
    let config = DistillSpecConfig { answers: Answers::Data, ..DistillSpecConfig::default() };
    let with = Distilled { config, lm_head: head, chunk_rows: 10, seed: 3, longest: 32, earlier, data };
    DistillSpecFitting::new(llama, start, document, with)
}

/// A fitted draft model.
fn fitted(objective: &DistillSpecFitting, steps: u64) -> Arc<Decoder> {
    let (dir, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = RunDir::create(dir.path(), "test").unwrap();
    let training =
        Training { steps, learning_rate: Some(3e-2), eval_every: steps, save_every: steps, ..Training::default() };
    let settings = training.settings(4, 7).unwrap();
    let outcome = fit(objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
    DRAFT.write(model.path(), FloatFormat::F32, 1).unwrap();
    write_untied(model.path(), &outcome.parameters);
    load(model.path())
}

fn write_untied(dir: &Path, parameters: &[gorgon_train::parameters::Parameter]) {
    let values: Vec<Vec<f32>> = parameters.iter().map(|parameter| read(parameter.value.clone())).collect();
    let sources = parameters.iter().zip(&values).map(|(parameter, values)| tensors::Source {
        name: parameter.name.clone(),
        dtype: Dtype::F32,
        shape: parameter.shape.clone(),
        fill: Box::new(|file| tensors::write_f32(file, values)),
    });
    tensors::write(&dir.join("model.safetensors"), &sources.collect::<Vec<_>>()).unwrap();
}

/// For each position of a text, whether the next token is among a model's top k: by sorting.
fn predicted(model: &Arc<Decoder>, ids: &[Token], k: usize) -> Vec<bool> {
    let hidden = DecoderTarget::new(model.clone(), 64, Hooks::none()).prefill(ids).unwrap().hidden;
    let logits = model.logits(&hidden);
    let predicts = |t: usize| {
        let row = &logits[t * VOCAB..(t + 1) * VOCAB];
        let mut order: Vec<usize> = (0..VOCAB).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        order[..k].contains(&(ids[t + 1] as usize))
    };
    (0..ids.len() - 1).map(predicts).collect()
}

/// The share of tokens that some of these models predict, in texts of each mode and in all.
fn acceptance(models: &[&Arc<Decoder>]) -> [f64; 3] {
    let (mut right, mut all) = ([0.0; 3], [0.0; 3]);
    for (i, row) in rows().iter().enumerate() {
        let by_model: Vec<Vec<bool>> = models.iter().map(|model| predicted(model, &row.example.ids, 1)).collect();
        for t in 0..LENGTH - 1 {
            let found = by_model.iter().any(|predicted| predicted[t]);
            for group in [usize::from(i % 4 == 3), 2] {
                all[group] += 1.0;
                right[group] += f64::from(u8::from(found));
            }
        }
    }
    [0, 1, 2].map(|group| right[group] / all[group])
}

/// All positions with weight, by text.
fn weighted(objective: &DistillSpecFitting, steps: u64) -> Vec<(Vec<Token>, Vec<usize>)> {
    let batches = (0..steps).flat_map(|step| objective.batches(step).unwrap());
    let of = |batch: gorgon_train::methods::distill_spec::Answered| {
        let found = objective.weighted(&batch).unwrap().to_vec();
        assert_eq!(objective.weights(&batch), [found.iter().map(Vec::len).sum::<usize>() as f64]);
        objective.texts(&batch).map(<[Token]>::to_vec).zip(found).collect::<Vec<_>>()
    };
    batches.flat_map(of).collect()
}

#[test]
fn a_second_model_learns_what_the_first_one_does_not() {
    let first = fitted(&fitting(2, Earlier::default(), rows()), 40);
    let earlier = Earlier { models: vec![first.clone()], top_k: 1 };
    let objective = fitting(2, earlier, rows());
    for (ids, positions) in weighted(&objective, 4) {
        let expected: Vec<usize> = (0..LENGTH - 1).filter(|&t| !predicted(&first, &ids, 1)[t]).collect();
        assert_eq!(positions, expected, "tokens that the first model predicts have no weight, all others do");
    }
    let second = fitted(&objective, 40);
    let (one, two, both) = (acceptance(&[&first]), acceptance(&[&second]), acceptance(&[&first, &second]));
    eprintln!("first {one:?}, second {two:?}, both {both:?}");
    assert!(one[0] > one[1], "the first model learns the frequent mode: {one:?}");
    assert!(two[1] > one[1], "the second one learns the other: {two:?} after {one:?}");
    assert!(both[2] > one[2].max(two[2]), "{both:?} of {one:?} and {two:?}");
}

/// Loss and gradients are those over the positions that are left.
#[test]
fn gradients_are_those_of_the_positions_with_weight() {
    let first = fitted(&fitting(2, Earlier::default(), rows()), 12);
    for top_k in [1, 3] {
        let boosted = fitting(4, Earlier { models: vec![first.clone()], top_k }, rows());
        let mut masked = rows();
        let mut left = 0;
        for row in &mut masked {
            for (t, predicted) in predicted(&first, &row.example.ids.clone(), top_k).into_iter().enumerate() {
                row.example.assistant[t + 1] = !predicted;
                left += usize::from(!predicted);
            }
        }
        assert!(left > 0 && left < masked.len() * (LENGTH - 1), "{left} positions are left");
        let by_hand = fitting(4, Earlier::default(), masked);
        let step = |objective: &DistillSpecFitting| {
            let batches = objective.batches(1).unwrap();
            let total: f64 = batches.iter().map(|batch| objective.weights(batch)[0]).sum();
            let weights: Vec<Tensor<1>> = objective.parameters(0).iter().map(|p| p.value.clone()).collect();
            let part = |batch| {
                let found = objective.gradients(&weights, batch, &[total]).unwrap();
                (found.loss, found.gradients.into_iter().map(read).collect::<Vec<_>>())
            };
            batches.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(step(&boosted), step(&by_hand));
    }
}

/// Where an earlier model predicts everything, a step changes nothing and is no error.
#[test]
fn a_step_without_weight_has_no_gradient() {
    let everything = Earlier { models: vec![fitted(&fitting(2, Earlier::default(), rows()), 1)], top_k: VOCAB };
    let objective = fitting(4, everything, rows());
    let batch = objective.batches(0).unwrap().remove(0);
    assert_eq!(objective.weights(&batch), [0.0]);
    let weights: Vec<Tensor<1>> = objective.parameters(0).iter().map(|p| p.value.clone()).collect();
    let found = objective.gradients(&weights, &batch, &[0.0]).unwrap();
    assert_eq!(found.loss, 0.0);
    assert!(found.gradients.into_iter().flat_map(read).all(|value| value == 0.0));
}
