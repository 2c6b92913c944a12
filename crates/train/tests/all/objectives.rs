//! Inputs of the training loop: gradients are slopes, threads change no bit, damage is reported.

use crate::slopes;

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::medusa::{Heads, MedusaConfig};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::Training;
use gorgon_train::error::TrainError;
use gorgon_train::llama::Llama;
use gorgon_train::methods::{Conversations, Features, HeadFitting, Windows, positions};
use gorgon_train::optimizer::Method;
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::Pretraining;
use gorgon_train::trainer::{Objective, fit};
use slopes::check_slopes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
        Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect(), corrected: None }
    };
    (0..n).map(example).collect()
}

fn packing(examples: &[Example]) -> Packing {
    Packing::new(examples.iter().map(|e| e.ids.len()).collect(), 40, 3, 1)
}

fn pretraining() -> Pretraining {
    let llama = Llama::new(SHAPE, Device::flex());
    let (fitted, held_out) = (examples(12), examples(3));
    let packing = packing(&fitted);
    Pretraining::new(llama, SHAPE, fitted, held_out, packing, 0.25)
}

/// The last part has examples of its own, in batches that can be halved like all others; the first part is as without
/// it.
#[test]
fn the_last_part_is_fitted_to_its_own_examples() {
    const FROM: u64 = 5;
    let last = examples(20).split_off(12);
    let steps = packing(&last).steps_per_epoch();
    let (alone, both) = (pretraining(), pretraining().finishing(FROM, last.clone(), packing(&last)));
    for step in 0..FROM {
        assert_eq!(both.batches(step).unwrap(), alone.batches(step).unwrap());
    }
    let batches: Vec<Vec<usize>> = (FROM..FROM + steps).flat_map(|step| both.batches(step).unwrap()).collect();
    let mut seen = batches.concat();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (12..20).collect::<Vec<_>>());
    let batch = batches.iter().find(|batch| batch.len() > 1).unwrap();
    let (a, b) = both.halves(batch).unwrap();
    assert_eq!(&[a.clone(), b.clone()].concat(), batch);
    assert_eq!(both.size(&a).tokens + both.size(&b).tokens, both.size(batch).tokens);
    assert_eq!(both.one_pass(FROM + steps).last(), Some(FROM + steps - 1));
    assert_eq!(
        alone.one_pass(FROM).collect::<Vec<_>>(),
        (0..FROM.min(alone.packing().steps_per_epoch())).collect::<Vec<_>>()
    );
    assert_eq!(both.phases(FROM + steps), [0..FROM, FROM..FROM + steps]);
    assert_eq!(alone.phases(7), std::iter::once(0..7).collect::<Vec<_>>());
    let tokens: usize = batch.iter().map(|&i| last[i - 12].ids.len()).sum();
    assert_eq!(both.size(batch).tokens, tokens);
}

fn head_fitting(lm_head_value: Option<f32>) -> HeadFitting {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let mut table: Vec<f32> = (0..d * vocab).map(|i| ((i * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.5).collect();
    table[7] = lm_head_value.unwrap_or(table[7]);
    let row = |(i, example): (usize, Example)| Row {
        row: i as u64,
        key: i as u64,
        id: format!("conversation-{i}"),
        source: "somewhere.jsonl".into(),
        line: 100 + i as u64,
        category: None,
        example,
        ends: vec!["end_token".into()],
        shard: "shard-00042.parquet".into(),
    };
    let rows: Vec<Row> = examples(12).into_iter().enumerate().map(row).collect();
    let packing = packing(&examples(12));
    let config = MedusaConfig { heads: 3, ..MedusaConfig::default() };
    HeadFitting {
        heads: Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: 16 },
        lm_head: Tensor::from_data(TensorData::new(table, [vocab, d]), &Device::flex()).into(),
        data: Conversations {
            features: Features { decoder, cache: None },
            held_out: rows[..3].to_vec(),
            rows,
            packing,
            base: "somewhere".into(),
            decoded_prompts: 2,
            decoded_tokens: 12,
            init_from: None,
            windows: Windows::default(),
        },
        shuffle: None,
    }
}

#[test]
fn pretraining_gradients_are_slopes() {
    let objective = pretraining();
    let mut parameters = objective.parameters(3);
    for p in &mut parameters {
        p.value = p.value.clone() * 3.0;
    }
    check_slopes(&objective, &parameters, (0.02, 0.02));
}

#[test]
fn head_gradients_are_slopes() {
    let objective = head_fitting(None);
    let mut parameters = objective.parameters(0);
    for (i, p) in parameters.iter_mut().enumerate() {
        let values = (0..p.len()).map(|j| ((j * 131 + i) % 17) as f32 / 40.0 - 0.2).collect();
        p.value = Parameter::new("", &p.shape, p.role, values, &Device::flex()).value;
    }
    check_slopes(&objective, &parameters, (0.02, 0.02));
}

fn fitted<O: Objective>(objective: &O, training: &Training, threads: usize) -> Vec<Vec<f32>> {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training.settings(4, 7).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let outcome = pool.install(|| fit(objective, &run, &settings, &AtomicBool::new(false), &mut |_| ())).unwrap();
    assert!(outcome.finished);
    outcome.parameters.into_iter().map(|p| read(p.value)).collect()
}

#[test]
fn threads_change_no_bit() {
    let training = |optimizer: Method| Training { steps: 9, optimizer, ..Training::default() };
    let objective = pretraining();
    for optimizer in [Method::AdamW, Method::Muon] {
        let one = fitted(&objective, &training(optimizer), 1);
        assert_eq!(one, fitted(&objective, &training(optimizer), 3), "{optimizer:?}");
    }
    let objective = head_fitting(None);
    assert_eq!(fitted(&objective, &training(Method::AdamW), 1), fitted(&objective, &training(Method::AdamW), 3));
}

/// The last prompt position takes part; those of the prompt before it, and those at the end, do not.
#[test]
fn positions_are_those_with_a_label() {
    let mask = [0, 0, 0, 0, 1, 1, 1, 0, 0];
    let assistant = mask.iter().map(|&own| own == 1).collect();
    let example = Example { ids: (0..9).collect(), assistant, corrected: None };
    assert_eq!(positions(&example, 1), [3, 4]);
    assert_eq!(positions(&example, 3), [3, 4]);
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let objective = head_fitting(Some(f32::NAN));
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = Training { steps: 3, ..Training::default() }.settings(1, 0).unwrap();
    let error = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { step: 0, .. }));
    let said = error.to_string();
    for word in ["shard-00042.parquet", "row ", "conversation-", "somewhere.jsonl line 10"] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(run.steps().unwrap(), Vec::<u64>::new());
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = Training { steps: 2, save_every: 1, ..Training::default() }.settings(1, 0).unwrap();
    let stop = AtomicBool::new(false);
    fit(&head_fitting(None), &run, &settings, &stop, &mut |_| ()).unwrap();
    let error = fit(&pretraining(), &run, &settings, &stop, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("model.safetensors"), "{error}");
}
