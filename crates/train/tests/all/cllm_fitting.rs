//! Fitting a backbone for consistency: what steps draw, slopes, what neither threads nor interruptions change, and what
//! fitting does to trajectories and language.

use crate::on_backbone;

use burn::tensor::Device;
use gorgon_core::Token;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_data::trajectory::{Trajectory, of_row};
use gorgon_kernels::Frozen;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::write_parameters;
use gorgon_train::config::{CllmConfig, Consistency, FittedWeights, Training};
use gorgon_train::evaluation::{CllmMetrics, Metrics};
use gorgon_train::llama::Llama;
use gorgon_train::lora::{Lora, LoraConfig, NetworkWeights};
use gorgon_train::methods::{CllmFitting, Conversations, OnBackbone, lm_head as read_lm_head};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{Objective, fit};
use on_backbone::{SHAPE, assert_slopes, conversations, conversations_on, fitted, keeps_backbone, row, step, stirred};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The trajectories of some conversations.
fn trajectories(decoder: &Arc<Decoder>, rows: &[Row], block: usize) -> Vec<Vec<Trajectory>> {
    let of = |row: &Row| {
        let mut target = DecoderTarget::new(decoder.clone(), 64, Hooks::none());
        of_row(&mut target, row, (block, &[]), 1).unwrap()
    };
    rows.iter().map(of).collect()
}

/// A fitting on the backbone in a folder, in blocks of some tokens.
fn fitting_on(data: Conversations, dir: &Path, config: CllmConfig, block: usize) -> CllmFitting {
    let (base, model) = (Checkpoint::open(dir).unwrap(), data.features.decoder.config().clone());
    let llama = Llama::of(&model, 64, Device::flex()).unwrap();
    let start = llama.load(&base).unwrap();
    let of = |rows: &[Row]| trajectories(&data.features.decoder, rows, block);
    CllmFitting {
        weights: match config.weights {
            FittedWeights::Full => NetworkWeights::Full(start),
            FittedWeights::Lora => NetworkWeights::Lora(Lora::new(config.lora.clone(), start)),
        },
        lm_head: read_lm_head(&base, &model, &Device::flex(), Some(Frozen::default())).unwrap(),
        llama,
        base,
        chunk_rows: 16,
        config,
        seed: 3,
        block,
        trajectories: of(&data.rows),
        held_out: data.held_out.iter().map(|row| row.row).zip(of(&data.held_out)).collect(),
        data,
    }
}

/// A fitting on the small backbone of the tests, in blocks of four tokens.
pub fn fitting(dir: &Path, full: bool, consistency: Consistency) -> CllmFitting {
    let weights = if full { FittedWeights::Full } else { FittedWeights::Lora };
    let lora = LoraConfig { rank: 3, ..LoraConfig::default() };
    let config = CllmConfig { weights, lora, consistency, omega: 2.0, ..CllmConfig::default() };
    fitting_on(conversations(dir), dir, config, 4)
}

/// Steps draw augmented states by step and conversation alone; the last two states of a trajectory stay.
#[test]
fn training_draws_augmented_states() {
    let dir = tempfile::tempdir().unwrap();
    let of = |augmented: bool| {
        let mut objective = fitting(dir.path(), true, Consistency::Global);
        objective.config.augmented = augmented;
        objective
    };
    let (plain, more, again) = (of(false), of(true), of(true));
    let parameters = plain.parameters(0);
    let found: Vec<bool> = (0..6)
        .map(|number| {
            let (loss, gradients) = step(&more, &parameters, number);
            assert_eq!((loss, gradients), step(&again, &parameters, number));
            loss != step(&plain, &parameters, number).0
        })
        .collect();
    assert!(found.contains(&true), "nothing was augmented");
    let last = |mut objective: CllmFitting| {
        for one in objective.trajectories.iter_mut().flatten() {
            one.states.drain(..one.states.len().saturating_sub(2));
        }
        step(&objective, &parameters, 1)
    };
    assert_eq!(last(plain), last(more));
    let evaluated = |objective: &CllmFitting| objective.evaluate(&parameters).unwrap().objective;
    assert_eq!(evaluated(&of(false)), evaluated(&again));
}

/// Where one iteration is left, the next state is the fixed point: both losses are one, bit for bit. In blocks of one
/// token there is no context that could differ.
#[test]
fn with_one_iteration_local_is_global() {
    let dir = tempfile::tempdir().unwrap();
    let of = |consistency: Consistency, change: &dyn Fn(&mut Trajectory)| {
        let mut objective = fitting(dir.path(), true, consistency);
        objective.config.omega = 0.0;
        objective.trajectories.iter_mut().flatten().for_each(change);
        let parameters = objective.parameters(0);
        (0..4).map(|number| step(&objective, &parameters, number)).collect::<Vec<_>>()
    };
    let both =
        |change: &dyn Fn(&mut Trajectory)| [Consistency::Global, Consistency::Local].map(|side| of(side, change));
    let [global, local] = both(&|one| drop(one.states.drain(..one.states.len().saturating_sub(2))));
    assert_eq!(global, local);
    assert!(global.iter().any(|(loss, _)| *loss > 0.0), "nothing was compared");
    let [global, local] = both(&|_| ());
    assert_ne!(global, local, "with more iterations the losses differ");
    let [global, local] = both(&|one| one.states.iter_mut().for_each(|state| state.truncate(1)));
    assert_eq!(global, local);
    assert!(global.iter().all(|(loss, gradients)| *loss == 0.0 && gradients.iter().flatten().all(|&g| g == 0.0)));
}

/// With states that are the fixed point the objective's slopes are those of the text's part.
#[test]
fn gradients_of_the_text_are_slopes() {
    for full in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut objective = fitting(dir.path(), full, Consistency::Global);
        for row in objective.trajectories.iter_mut().flatten() {
            let fixed = row.states.pop().unwrap();
            row.states = vec![fixed];
        }
        assert_slopes(&objective, &stirred(objective.parameters(3)), 2);
    }
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    for (full, consistency) in [(false, Consistency::Global), (true, Consistency::Local)] {
        let (dir, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let objective = fitting(model.path(), full, consistency);
        let one = keeps_backbone(&objective, model.path(), || fitted(&objective, dir.path(), 1, None));
        assert_eq!(one, fitted(&objective, dir.path(), 3, None));
        assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    }
}

/// Before the first step nothing is lost; other weights show in the divergence from the original.
#[test]
fn evaluations_watch_the_language() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(dir.path(), false, Consistency::Global);
    let metrics = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
    let Metrics::Cllm(cllm) = &metrics else { panic!("{metrics:?}") };
    assert!(cllm.kl.abs() < 1e-4 && !cllm.degraded, "{cllm:?}");
    assert!((cllm.perplexity - cllm.perplexity_before).abs() < 1e-3 * cllm.perplexity, "{cllm:?}");
    assert!(metrics.tau().unwrap() >= 1.0, "{cllm:?}");
    let far = objective.evaluate(&stirred(objective.parameters(3))).unwrap().metrics;
    let Metrics::Cllm(far) = far else { panic!("{far:?}") };
    assert!(far.kl > cllm.kl, "{far:?}");
}

/// A small backbone with a vocabulary of eight circles.
const CIRCLES: LlamaShape =
    LlamaShape { hidden_size: 64, intermediate_size: 128, kv_heads: 2, vocab_size: 32, ..SHAPE };

/// The token behind another one: they go round in circles of four.
fn following(token: Token) -> Token {
    token / 4 * 4 + (token + 1) % 4
}

/// Writes a model that has learnt the circles from one token to the next: its layers hardly count beside the embeddings,
/// and its LM head names what follows. So each iteration settles one token, although the text in front of a block tells
/// all of them.
fn write_circles(dir: &Path) {
    CIRCLES.write(dir, FloatFormat::F32, 5).unwrap();
    let d = CIRCLES.hidden_size;
    let llama = Llama::of(&ModelConfig::read(dir).unwrap(), 64, Device::flex()).unwrap();
    let mut parameters = llama.load(&Checkpoint::open(dir).unwrap()).unwrap();
    let table = parameters.iter().position(|p| p.name == "model.embed_tokens.weight").unwrap();
    let values = read(parameters[table].value.clone());
    let (mut embeddings, mut head) = (vec![], vec![0.0; values.len()]);
    for (token, row) in values.chunks_exact(d).enumerate() {
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        embeddings.extend(row.iter().map(|value| value / norm * 10.0));
        let named = &mut head[following(token as Token) as usize * d..][..d];
        named.iter_mut().zip(row).for_each(|(named, value)| *named = value / norm * 2.0);
    }
    for (at, values) in [(table, embeddings), (llama.lm_head(), head)] {
        let p = &parameters[at];
        parameters[at] = Parameter::new(&p.name, &p.shape, p.role, values, &Device::flex());
    }
    write_parameters(dir, &parameters, &[]).unwrap();
}

/// Walks in the circles from every token on, behind prompts of different lengths: some to fit to, and others to measure
/// on.
fn walks(dir: &Path) -> Conversations {
    write_circles(dir);
    let mut data = conversations_on(dir);
    let walk = |i: usize| {
        // No two share both their first token and their length.
        let (first, prompt) = (i as Token % 32, 5 + (i / 32 + i) % 8);
        let ids: Vec<Token> = std::iter::successors(Some(first), |&at| Some(following(at))).take(prompt + 24).collect();
        row(i, Example { assistant: (0..ids.len()).map(|at| at >= prompt).collect(), ids, corrected: None })
    };
    let rows: Vec<Row> = (0..48).map(walk).collect();
    data.held_out = (48..96).map(walk).collect();
    data.packing = Packing::new(rows.iter().map(|row| row.example.ids.len()).collect(), 160, 2, 1);
    (data.rows, data.decoded_prompts, data.decoded_tokens) = (rows, 48, 24);
    data
}

/// Divergence from the original, in nats per token, that a fitting may cost.
const KL_BOUND: f64 = 0.05;

/// How a fitting decodes prompts that it was not fitted to: iterations of all their blocks, and tokens per step.
fn decoded(objective: &CllmFitting, parameters: &[Parameter]) -> (usize, f64, CllmMetrics) {
    let metrics = objective.evaluate(parameters).unwrap().metrics;
    let (tau, Metrics::Cllm(language)) = (metrics.tau().unwrap(), metrics) else { panic!("no metrics of CLLM") };
    let (step, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_parameters(step.path(), parameters, &[]).unwrap();
    objective.publish(step.path(), run.path()).unwrap();
    let published = objective.served(run.path()).unwrap().unwrap().features.decoder;
    let all = trajectories(&published, &objective.data.held_out, objective.block);
    (all.iter().flatten().map(|one| one.states.len() - 1).sum(), tau, language)
}

/// Fitted on its own answers, a model needs fewer iterations behind prompts that it was not fitted to, and stays near the
/// original. The text's part of the loss alone takes no iteration away.
#[test]
fn fitting_takes_iterations_and_leaves_the_language() {
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let training =
        Training { steps: 400, learning_rate: Some(5e-3), eval_every: 0, save_every: 0, ..Training::default() };
    let settings = training.settings(1, 7).unwrap();
    let fitted = |objective: &CllmFitting| {
        let run = RunDir::create(folder.path(), "test").unwrap();
        let outcome = fit(objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
        decoded(objective, &outcome.parameters)
    };
    let with = |weights: FittedWeights| {
        // Smoothed labels would contradict a language without doubt.
        let config = CllmConfig { weights, label_smoothing: 0.0, ..CllmConfig::default() };
        fitting_on(walks(dir.path()), dir.path(), config, 8)
    };
    let original = with(FittedWeights::Lora);
    let own = |(row, all): (&Row, &Vec<Trajectory>)| {
        all.iter().all(|one| row.example.ids[one.prefix..].starts_with(one.fixed_point()))
    };
    assert!(original.data.rows.iter().zip(&original.trajectories).all(own), "a walk is not the model's answer");
    let (before, tau, _) = decoded(&original, &original.parameters(3));
    assert!(before > 7 * 48 * 3 && tau < 1.1, "{before} iterations of {} blocks, {tau}", 48 * 3);
    for objective in [with(FittedWeights::Lora), with(FittedWeights::Full)] {
        let (after, tau, language) = fitted(&objective);
        assert!(3 * after < before && tau > 3.0, "{before} {after} {tau}");
        assert!(language.kl < KL_BOUND && !language.degraded && language.agreement > 0.99, "{language:?}");
    }
    let mut text_alone = original;
    for one in text_alone.trajectories.iter_mut().flatten() {
        one.states.drain(..one.states.len() - 1);
    }
    let (after, ..) = fitted(&text_alone);
    assert!(10 * after > 9 * before, "{before} {after}");
}
