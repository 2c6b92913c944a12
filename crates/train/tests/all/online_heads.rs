//! Learning heads from corrections: which states and labels a step on the log reaches, and which it leaves alone.

use crate::on_backbone;

use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{Greedy, TargetRows};
use gorgon_core::tree::{ChainTree, FixedTree, TreeShape};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::corrections::{CorrectedDrafter, CorrectedText, Corrections};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{Heads, MedusaConfig, MedusaDrafter, MedusaModel};
use gorgon_infer::{Limits, Method, Request, Session, decode};
use gorgon_kernels::Frozen;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters, write_parameters};
use gorgon_train::config::Training;
use gorgon_train::methods::{Conversations, Features, HeadFitting, Windows, lm_head};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{FitSettings, Objective, fit};
use on_backbone::{SHAPE, fitted, killed};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

const PROMPTS: [&[Token]; 3] = [&[1, 2, 3], &[200, 100, 50, 25], &[9, 8, 7, 6, 5]];

#[derive(Default)]
struct Log(Mutex<Vec<Example>>);

impl Corrections for Log {
    fn take(&self, text: CorrectedText<'_>) {
        let corrected = (0..text.ids.len()).map(|at| text.corrected.contains(&at)).collect();
        let (ids, assistant) = (text.ids.to_vec(), text.own.to_vec());
        self.0.lock().unwrap().push(Example { ids, assistant, corrected: Some(corrected) });
    }
}

/// The corrected positions of a text.
fn corrected(example: &Example) -> Vec<usize> {
    let mask = example.corrected.as_ref().unwrap();
    (0..mask.len()).filter(|&at| mask[at]).collect()
}

/// An equal text of which only this position is corrected.
fn only(example: &Example, at: usize) -> Example {
    Example { corrected: Some((0..example.ids.len()).map(|other| other == at).collect()), ..example.clone() }
}

/// A target, and one Medusa head, which drafts the token behind the next one.
struct Pair {
    target: tempfile::TempDir,
    decoder: Arc<Decoder>,
}

impl Pair {
    fn new() -> Self {
        let target = tempfile::tempdir().unwrap();
        SHAPE.write(target.path(), FloatFormat::F32, 5).unwrap();
        let decoder = Arc::new(Decoder::load(target.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
        Self { target, decoder }
    }

    fn fitting(&self, texts: &[Example]) -> HeadFitting {
        let checkpoint = Checkpoint::open(self.target.path()).unwrap();
        let device = self.decoder.compute().device();
        let row = |(i, example): (usize, &Example)| Row {
            row: i as u64,
            key: i as u64,
            id: format!("correction-{i}"),
            source: "--learn".into(),
            line: 1 + i as u64,
            category: None,
            example: example.clone(),
            ends: vec!["given".into()],
            shard: "shard-00000.parquet".into(),
        };
        let rows: Vec<Row> = texts.iter().enumerate().map(row).collect();
        let mut held_out = rows.clone();
        held_out.iter_mut().for_each(|row| row.example.corrected = None);
        let (hidden_size, vocab_size) = (SHAPE.hidden_size, SHAPE.vocab_size);
        HeadFitting {
            heads: Heads {
                config: MedusaConfig { heads: 1, ..MedusaConfig::default() },
                hidden_size,
                vocab_size,
                chunk_rows: 16,
            },
            lm_head: lm_head(&checkpoint, self.decoder.config(), device, Some(Frozen::default())).unwrap(),
            data: Conversations {
                features: Features { decoder: self.decoder.clone(), cache: None },
                held_out,
                packing: Packing::new(rows.iter().map(|row| row.example.ids.len()).collect(), 40, 1, 1),
                rows,
                base: "somewhere".into(),
                decoded_prompts: 0,
                decoded_tokens: 12,
                init_from: None,
                windows: Windows::default(),
            },
            shuffle: None,
        }
    }

    /// Greedy texts of all prompts, drafted with these heads, and their corrections.
    fn decode(&self, parameters: &[Parameter]) -> (Vec<Vec<Token>>, Vec<Example>) {
        let folder = tempfile::tempdir().unwrap();
        write_parameters(folder.path(), parameters, &[]).unwrap();
        let document = self.fitting(&[]).document().unwrap();
        std::fs::write(folder.path().join("config.json"), document.to_string()).unwrap();
        let heads = HeadsFolder::open(folder.path()).unwrap();
        let log = Arc::new(Log::default());
        let drafter = MedusaDrafter::new(MedusaModel::load(&heads, self.decoder.clone()).unwrap());
        let drafter = CorrectedDrafter::new(drafter, log.clone());
        let mut session = Session::new(DecoderTarget::new(self.decoder.clone(), 60, Hooks::none()), drafter);
        let (tree, limits) = (ChainTree::new(1).unwrap(), Limits { max_new_tokens: 24, end_tokens: vec![] });
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

    /// The parameters after some steps on corrections, in a run folder.
    fn fitted(&self, texts: &[Example], steps: u64, rate: f64, folder: &Path) -> (RunDir, Vec<Parameter>) {
        let run = RunDir::create(folder, "test").unwrap();
        let of = Training { steps, learning_rate: Some(rate), log_every: 1, eval_every: 10, ..Training::default() };
        let settings = FitSettings { keep_start: true, ..of.settings(1, 0).unwrap() };
        let objective = self.fitting(texts);
        let outcome = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
        (run, outcome.parameters)
    }
}

fn gradients(objective: &HeadFitting) -> Vec<Vec<f32>> {
    let weights: Vec<Tensor<1>> = on_backbone::stirred(objective.parameters(0)).into_iter().map(|p| p.value).collect();
    let batches = objective.batches(0).unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(objective.weights(&batches[0]), [1.0]);
    objective.gradients(&weights, &batches[0], &[1.0]).unwrap().gradients.into_iter().map(read).collect()
}

/// The text is the target's, and every correction is a token of it that the head did not guess where it drafted.
#[test]
fn corrections_are_where_the_head_drafted_wrongly() {
    let pair = Pair::new();
    let objective = pair.fitting(&[]);
    let (texts, taken) = pair.decode(&objective.parameters(0));
    assert_eq!(texts, pair.plain());
    assert_eq!(taken.len(), PROMPTS.len());
    for (example, (prompt, answer)) in taken.iter().zip(PROMPTS.iter().zip(&texts)) {
        let whole = [prompt, answer.as_slice()].concat();
        assert_eq!(example.ids[..], whole[..example.ids.len()]);
        assert_eq!(example.assistant, (0..example.ids.len()).map(|at| at >= prompt.len()).collect::<Vec<_>>());
        // The first token of an answer is never drafted.
        assert!(corrected(example).first().is_some_and(|&at| at > prompt.len()));
    }
}

/// The gradient of a correction comes from the state two tokens before it alone: nothing behind it and no other label
/// takes part, and a label one place later is another one.
#[test]
fn the_gradient_reaches_that_row_and_no_other() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(&pair.fitting(&[]).parameters(0));
    let example = &taken[0];
    let at = corrected(example)[0];
    let one = pair.fitting(&[only(example, at)]);
    let batch = &one.batches(0).unwrap()[0];
    assert_eq!(gorgon_train::methods::positions(&only(example, at), 1), [at - 2]);
    assert_eq!(one.weights(batch), [1.0]);
    let expected = gradients(&one);
    let mut cut = only(example, at);
    cut.truncate(at + 1);
    let mut other = cut.clone();
    other.ids.extend([3; 5]);
    other.assistant.extend([true; 5]);
    other.corrected.as_mut().unwrap().extend([false; 5]);
    for found in [cut, other].map(|example| gradients(&pair.fitting(&[example]))) {
        for (a, b) in expected.iter().flatten().zip(found.iter().flatten()) {
            assert!((a - b).abs() <= 1e-6 + 1e-4 * a.abs(), "{a} {b}");
        }
    }
    assert!(expected.iter().flatten().any(|&g| g != 0.0));
    let late = gradients(&pair.fitting(&[only(example, at + 1)]));
    assert!(expected.iter().flatten().zip(late.iter().flatten()).any(|(a, b)| (a - b).abs() > 1e-3));
}

/// After some steps on one correction the draft is accepted there; the text is what it was before and in between. A head
/// that is fitted one place late does not learn it.
#[test]
fn a_correction_is_learnt_and_the_text_stays() {
    let pair = Pair::new();
    let (before, taken) = pair.decode(&pair.fitting(&[]).parameters(0));
    let at = corrected(&taken[0])[0];
    let learnt = |label: usize, steps: u64| {
        let folder = tempfile::tempdir().unwrap();
        let (_, parameters) = pair.fitted(&[only(&taken[0], label)], steps, 5e-2, folder.path());
        let (texts, taken) = pair.decode(&parameters);
        assert_eq!(texts, before, "after {steps} steps");
        !corrected(&taken[0]).contains(&at)
    };
    learnt(at, 2);
    assert!(learnt(at, 60));
    assert!(!learnt(at + 1, 60), "the reference's fault: a label one place late");
}

/// Heads that only get worse stay as they were: the parameters before the first step are the best.
#[test]
fn heads_that_get_worse_are_rolled_back() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(&pair.fitting(&[]).parameters(0));
    let folder = tempfile::tempdir().unwrap();
    // Begin with heads that know the texts, and go on in steps that destroy them.
    let (_, good) = pair.fitted(&taken, 80, 5e-2, folder.path());
    let mut objective = pair.fitting(&taken);
    let known = folder.path().join("known");
    std::fs::create_dir(&known).unwrap();
    write_parameters(&known, &good, &[]).unwrap();
    std::fs::write(known.join("config.json"), objective.document().unwrap().to_string()).unwrap();
    let heads = HeadsFolder::open(&known).unwrap();
    let values = gorgon_train::methods::InitialValues::read(&heads, &objective.parameters(0), &[]).unwrap();
    objective.data.init_from = Some(values);
    let run = RunDir::create(folder.path(), "worse").unwrap();
    let of = Training { steps: 10, learning_rate: Some(50.0), eval_every: 5, ..Training::default() };
    let settings = FitSettings { keep_start: true, ..of.settings(1, 0).unwrap() };
    fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(run.best().unwrap(), Some(0));
    let mut kept = objective.parameters(0);
    kept.iter_mut().for_each(|p| p.value = p.value.zeros_like());
    read_parameters(&run.step(0).join(MODEL_FILE), &mut kept, &[]).unwrap();
    for (kept, good) in kept.into_iter().zip(good) {
        assert_eq!(read(kept.value), read(good.value));
    }
}

/// Stopped or killed within the steps on a log and begun again, the heads are the same bit for bit.
#[test]
fn interruptions_change_no_bit() {
    let pair = Pair::new();
    let (_, taken) = pair.decode(&pair.fitting(&[]).parameters(0));
    assert!(taken.iter().all(|example| !corrected(example).is_empty()));
    let folder = tempfile::tempdir().unwrap();
    let one = fitted(&pair.fitting(&taken), folder.path(), 1, None);
    assert_eq!(one, fitted(&pair.fitting(&taken), folder.path(), 2, Some(5)));
    assert_eq!(one, killed(|| pair.fitting(&taken), folder.path(), 6));
}

/// The target's states and logits at the tokens of a text, as decoding computed them.
#[derive(Default)]
struct Seen {
    states: Vec<Vec<f32>>,
    /// Logits of each verified node; `None` for tokens of a prompt.
    logits: Vec<Option<Vec<f32>>>,
}

/// Keeps what another drafter is shown.
struct Watching<D> {
    inner: D,
    seen: Arc<Mutex<Seen>>,
}

impl<D: Drafter> Drafter for Watching<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        Needs { feedback: Feedback::Logits, ..self.inner.needs() }
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        let mut seen = self.seen.lock().unwrap();
        for (i, &row) in pass.rows.iter().enumerate() {
            seen.states.push(pass.output.hidden.narrow(row, 1).into_values().into_vec());
            let logits = pass.verified.and_then(|verified| match verified.target {
                Some(TargetRows::Logits { data, vocab }) => Some(data[verified.path[i] * vocab..][..vocab].to_vec()),
                _ => None,
            });
            seen.logits.push(logits);
        }
        drop(seen);
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.inner.draft(root, context)
    }
}

/// A log holds tokens alone. On a CPU training computes the states that decoding had at them, and the logits, from which
/// a draft model's targets are made, bit for bit: in one pass over the text, where decoding verified trees.
#[test]
fn states_and_logits_of_a_log_are_those_of_decoding() {
    let pair = Pair::new();
    let fitting = pair.fitting(&[]);
    let folder = tempfile::tempdir().unwrap();
    write_parameters(folder.path(), &fitting.parameters(0), &[]).unwrap();
    std::fs::write(folder.path().join("config.json"), fitting.document().unwrap().to_string()).unwrap();
    let heads = HeadsFolder::open(folder.path()).unwrap();
    let tree = FixedTree::new(TreeShape::from_json("[[0], [1], [2]]").unwrap());
    let limits = Limits { max_new_tokens: 24, end_tokens: vec![] };
    let mut compared = 0;
    for prompt in PROMPTS {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let inner = MedusaDrafter::new(MedusaModel::load(&heads, pair.decoder.clone()).unwrap());
        let target = DecoderTarget::new(pair.decoder.clone(), 60, Hooks::none());
        let mut session = Session::new(target, Watching { inner, seen: seen.clone() });
        let request = Request::new(prompt, &limits, SeededRandom::new(0));
        let method = Method { tree: &tree, rule: &Greedy };
        let answer = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap().ids;
        let ids = [prompt, &answer].concat();
        let seen = seen.lock().unwrap();
        let n = seen.states.len();
        assert!(n + 1 >= ids.len() && n <= ids.len(), "{n} of {}", ids.len());
        let example = Example { assistant: vec![true; n], ids: ids[..n].to_vec(), corrected: None };
        let logged = pair.fitting(&[example]);
        let positions: Vec<usize> = (0..n).collect();
        let states = logged.data.features.states(logged.data.row(false, 0), false, 0, &positions).unwrap();
        let states = read(states);
        assert_eq!(states, seen.states.concat());
        let width = SHAPE.hidden_size;
        let logits = pair.decoder.logits(&HiddenStates::Host { values: states.into(), width });
        for (row, found) in logits.chunks_exact(SHAPE.vocab_size).zip(&seen.logits) {
            let Some(found) = found else { continue };
            assert_eq!(row, found);
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}
