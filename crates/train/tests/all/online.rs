//! Learning from corrections: what is logged, what a step on the log reaches, and what it leaves alone.

use crate::on_backbone;

use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::{Row as Distribution, softmax};
use gorgon_core::tree::ChainTree;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::corrections::{CorrectedDrafter, CorrectedText, Corrections};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_infer::{Limits, Method, Request, Session, decode};
use gorgon_kernels::Frozen;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters, write_parameters};
use gorgon_train::config::{Answers, DistillSpecConfig, Training};
use gorgon_train::llama::Llama;
use gorgon_train::methods::{Conversations, DistillSpecFitting, Distilled, Earlier, Features, Windows, lm_head};
use gorgon_train::trainer::{FitSettings, Objective, fit};
use on_backbone::{SHAPE, fitted, killed};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const DRAFT: LlamaShape = LlamaShape { layers: 1, ..SHAPE };
const PROMPTS: [&[Token]; 3] = [&[1, 2, 3], &[200, 100, 50, 25], &[9, 8, 7, 6, 5]];

/// A text and its corrected positions.
type Corrected = (Vec<Token>, Vec<usize>);

#[derive(Default)]
struct Log(Mutex<Vec<Corrected>>);

impl Corrections for Log {
    fn take(&self, text: CorrectedText<'_>) {
        assert!(text.corrected.iter().all(|&at| text.own[at]));
        self.0.lock().unwrap().push((text.ids.to_vec(), text.corrected.to_vec()));
    }
}

/// A target, and a draft model in a folder.
struct Pair {
    target: tempfile::TempDir,
    draft: tempfile::TempDir,
    decoder: Arc<Decoder>,
}

impl Pair {
    fn new() -> Self {
        let (target, draft) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        SHAPE.write(target.path(), FloatFormat::F32, 5).unwrap();
        DRAFT.write(draft.path(), FloatFormat::F32, 6).unwrap();
        let decoder = Arc::new(Decoder::load(target.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
        Self { target, draft, decoder }
    }

    /// Greedy texts of all prompts, drafted with the model in a folder, and its corrections.
    fn decode(&self, draft: &Path) -> (Vec<Vec<Token>>, Vec<Corrected>) {
        let small = Arc::new(Decoder::load(draft, &Compute::cpu(FloatFormat::F32)).unwrap());
        let model = DraftModel::new("draft".into(), small, self.decoder.config());
        let log = Arc::new(Log::default());
        let drafter = CorrectedDrafter::new(DraftModelDrafter::new(model, DraftSampling::GREEDY), log.clone());
        let mut session = Session::new(DecoderTarget::new(self.decoder.clone(), 60, Hooks::none()), drafter);
        let (tree, limits) = (ChainTree::new(3).unwrap(), Limits { max_new_tokens: 24, end_tokens: vec![] });
        let texts = PROMPTS.iter().map(|prompt| {
            let request = Request::new(prompt, &limits, SeededRandom::new(0));
            let method = Method { tree: &tree, rule: &Greedy };
            session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap().ids
        });
        let texts = texts.collect();
        drop(session);
        let taken = log.0.lock().unwrap().clone();
        (texts, taken)
    }

    fn plain(&self) -> Vec<Vec<Token>> {
        let limits = Limits { max_new_tokens: 24, end_tokens: vec![] };
        let one = |prompt: &&[Token]| {
            let mut target = DecoderTarget::new(self.decoder.clone(), 60, Hooks::none());
            let random = &mut SeededRandom::new(0);
            decode(&mut target, prompt, &Greedy, random, &limits, &mut |_| ControlFlow::Continue(())).unwrap().ids
        };
        PROMPTS.iter().map(one).collect()
    }

    fn fitting(&self, texts: &[Corrected]) -> DistillSpecFitting {
        let device = self.decoder.compute().device().clone();
        let checkpoint = Checkpoint::open(self.target.path()).unwrap();
        let head = lm_head(&checkpoint, self.decoder.config(), &device, Some(Frozen::default())).unwrap();
        let llama = Llama::of(&ModelConfig::read(self.draft.path()).unwrap(), 64, device).unwrap();
        let start = llama.load(&Checkpoint::open(self.draft.path()).unwrap()).unwrap();
        let document = serde_json::from_slice(&std::fs::read(self.draft.path().join("config.json")).unwrap()).unwrap();
        let rows: Vec<Row> = texts.iter().enumerate().map(|(i, (ids, at))| row(i, ids, at)).collect();
        let data = Conversations {
            features: Features { decoder: self.decoder.clone(), cache: None },
            held_out: rows.clone(),
            packing: Packing::new(rows.iter().map(|row| row.example.ids.len()).collect(), 40, 1, 1),
            rows,
            base: "somewhere".into(),
            decoded_prompts: 0,
            decoded_tokens: 12,
            init_from: None,
            windows: Windows::default(),
        };
        let config = DistillSpecConfig { answers: Answers::Data, ..DistillSpecConfig::default() };
        let earlier = Earlier::default();
        let with = Distilled { config, lm_head: head, chunk_rows: 16, seed: 3, longest: 32, earlier, data };
        DistillSpecFitting::new(llama, start, document, with)
    }
}

fn row(i: usize, ids: &[Token], corrected: &[usize]) -> Row {
    let assistant = vec![true; ids.len()];
    let corrected = Some((0..ids.len()).map(|at| corrected.contains(&at)).collect());
    Row {
        row: i as u64,
        key: i as u64,
        id: format!("correction-{i}"),
        source: "--learn".into(),
        line: 1 + i as u64,
        category: None,
        example: Example { ids: ids.to_vec(), assistant, corrected },
        ends: vec!["given".into()],
        shard: "shard-00000.parquet".into(),
    }
}

/// A model's logits after a text.
fn logits(folder: &Path, text: &[Token]) -> Vec<f32> {
    let decoder = Arc::new(Decoder::load(folder, &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = DecoderTarget::new(decoder, 64, Hooks::none());
    let hidden = target.prefill(text).unwrap().hidden;
    target.logits(&hidden.narrow(hidden.rows() - 1, 1)).to_vec()
}

/// A model's first guess after a text.
fn guess(folder: &Path, text: &[Token]) -> Token {
    Distribution::Logits(&logits(folder, text)).argmax() as Token
}

fn gradients(objective: &DistillSpecFitting) -> Vec<Vec<f32>> {
    let weights: Vec<Tensor<1>> = objective.parameters(0).into_iter().map(|p| p.value).collect();
    let batches = objective.batches(0).unwrap();
    let all: Vec<Vec<Vec<f32>>> = batches
        .iter()
        .map(|batch| objective.gradients(&weights, batch, &[1.0]).unwrap().gradients.into_iter().map(read).collect())
        .collect();
    assert_eq!(all.len(), 1);
    all.into_iter().next().unwrap()
}

/// The loss of corrections at the parameters that the draft model begins with.
fn loss(objective: &DistillSpecFitting) -> f64 {
    let weights: Vec<Tensor<1>> = objective.parameters(0).into_iter().map(|p| p.value).collect();
    let batches = objective.batches(0).unwrap();
    assert_eq!(batches.len(), 1);
    objective.gradients(&weights, &batches[0], &[1.0]).unwrap().loss
}

fn settings(steps: u64, rate: f64) -> FitSettings {
    let of = Training {
        steps,
        learning_rate: Some(rate),
        log_every: 1,
        save_every: 4,
        eval_every: 10,
        ..Training::default()
    };
    FitSettings { keep_start: true, ..of.settings(1, 0).unwrap() }
}

/// Corrections are where the draft model is wrong and the target's token stands; the text is the target's.
#[test]
fn corrections_are_wrong_guesses_of_the_draft_model() {
    let pair = Pair::new();
    let (texts, taken) = pair.decode(pair.draft.path());
    assert_eq!(texts, pair.plain());
    assert_eq!(taken.len(), PROMPTS.len());
    for ((ids, corrected), (prompt, answer)) in taken.iter().zip(PROMPTS.iter().zip(&texts)) {
        let whole = [prompt, answer.as_slice()].concat();
        assert_eq!(ids[..], whole[..ids.len()]);
        for &at in corrected {
            assert!(at > prompt.len());
            assert_ne!(guess(pair.draft.path(), &ids[..at]), ids[at]);
            assert_eq!(guess(pair.target.path(), &ids[..at]), ids[at]);
        }
    }
}

/// The gradient of a correction comes from its row alone: nothing behind it and no other label takes part.
#[test]
fn the_gradient_reaches_that_row_and_no_other() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(pair.draft.path());
    let (ids, corrected) = &taken[0];
    let at = corrected[0];
    let one = pair.fitting(&[(ids.clone(), vec![at])]);
    let batch = &one.batches(0).unwrap()[0];
    assert_eq!(one.weighted(batch).unwrap(), [vec![at - 1]]);
    let cut = pair.fitting(&[(ids[..=at].to_vec(), vec![at])]);
    let other: Vec<Token> = ids[..=at].iter().copied().chain([3; 5]).collect();
    let other = pair.fitting(&[(other, vec![at])]);
    let expected = gradients(&one);
    for found in [gradients(&cut), gradients(&other)] {
        for (a, b) in expected.iter().flatten().zip(found.iter().flatten()) {
            assert!((a - b).abs() <= 1e-6 + 1e-4 * a.abs(), "{a} {b}");
        }
    }
    assert!(expected.iter().flatten().any(|&g| g != 0.0));
}

/// The loss of a correction is the divergence of the draft model from its target where the corrected token was guessed.
/// A label one place late has another loss, and so has a target that is one place late.
#[test]
fn a_place_late_is_another_loss() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(pair.draft.path());
    let (ids, corrected) = &taken[0];
    let at = corrected[0];
    assert!(at + 1 < ids.len());
    let of = |folder: &Path, text: &[Token]| softmax(&logits(folder, text), 1.0);
    // Of the target's guess at one place and the draft model's at another.
    let divergence = |target: usize, draft: usize| -> f64 {
        let (p, q) = (of(pair.target.path(), &ids[..target]), of(pair.draft.path(), &ids[..draft]));
        p.iter().zip(q.iter()).map(|(p, q)| p * (p / q).ln()).sum()
    };
    let [right, late] = [at, at + 1].map(|label| loss(&pair.fitting(&[(ids.clone(), vec![label])])));
    for (found, want) in [(right, divergence(at, at)), (late, divergence(at + 1, at + 1))] {
        assert!((found - want).abs() < 1e-4 * want, "{found} {want}");
    }
    for other in [late, divergence(at + 1, at), divergence(at, at + 1)] {
        assert!((right - other).abs() > 1e-3, "{right} {other}");
    }
}

/// After some steps on one correction the draft model is right there; the text is what it was before and in between.
#[test]
fn a_correction_is_learnt_and_the_text_stays() {
    let pair = Pair::new();
    let (before, taken) = pair.decode(pair.draft.path());
    let (ids, corrected) = &taken[0];
    let at = corrected[0];
    let objective = pair.fitting(&[(ids.clone(), vec![at])]);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path(), "test").unwrap();
    for steps in [3, 60] {
        let settings = settings(steps, 2e-2);
        let outcome = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
        write_parameters(folder.path(), &outcome.parameters, &[]).unwrap();
        std::fs::copy(pair.draft.path().join("config.json"), folder.path().join("config.json")).unwrap();
        assert_eq!(pair.decode(folder.path()).0, before, "after {steps} steps");
    }
    assert_eq!(guess(folder.path(), &ids[..at]), ids[at]);
    assert!(run.best().unwrap().is_some_and(|step| step > 0));
}

/// A draft model that only gets worse stays as it was: the parameters before the first step are the best.
#[test]
fn a_model_that_gets_worse_is_rolled_back() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(pair.draft.path());
    let objective = pair.fitting(&taken);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path(), "test").unwrap();
    let settings = settings(10, 5.0);
    fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(run.best().unwrap(), Some(0));
    let mut kept = objective.parameters(0);
    kept.iter_mut().for_each(|p| p.value = p.value.zeros_like());
    read_parameters(&run.step(0).join(MODEL_FILE), &mut kept, &[]).unwrap();
    for (kept, start) in kept.into_iter().zip(objective.parameters(0)) {
        assert_eq!(read(kept.value), read(start.value));
    }
}

/// Stopped within the steps on a log and resumed, the weights are the same bit for bit.
#[test]
fn interruptions_change_no_bit() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(pair.draft.path());
    let fitted = |stop_at: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), "test").unwrap();
        let settings = settings(9, 1e-2);
        let stop = AtomicBool::new(false);
        let mut observe = |report: gorgon_train::trainer::Report| {
            if let gorgon_train::trainer::Report::Step(record) = report {
                stop.store(Some(record.step) == stop_at, Ordering::Relaxed);
            }
        };
        let mut once = || fit(&pair.fitting(&taken), &run, &settings, &stop, &mut observe).unwrap();
        let mut outcome = once();
        if stop_at.is_some() {
            assert!(!outcome.finished);
            outcome = once();
        }
        assert!(outcome.finished);
        outcome.parameters.into_iter().map(|p| read(p.value)).collect::<Vec<_>>()
    };
    assert_eq!(fitted(None), fitted(Some(5)));
}

/// Killed between two checkpoints and begun again, likewise.
#[test]
fn a_kill_changes_no_bit() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(pair.draft.path());
    let folder = tempfile::tempdir().unwrap();
    let one = fitted(&pair.fitting(&taken), folder.path(), 1, None);
    assert_eq!(one, killed(|| pair.fitting(&taken), folder.path(), 6));
}
