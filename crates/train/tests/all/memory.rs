//! Micro-batches that do not fit into memory: cut in halves they give the same, and a resumed run cuts what it would
//! have cut.

use crate::on_backbone;

use burn::tensor::Tensor;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::Training;
use gorgon_train::error::TrainError;
use gorgon_train::methods::{EagleFitting, HeadFitting, HeadRows};
use gorgon_train::micro_batch::fixed_bytes;
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{Evaluation, Gradients, Objective, Outcome, Report, Size, fit};
use on_backbone::loaded;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn heads() -> HeadFitting {
    on_backbone::heads(loaded())
}

fn eagle() -> EagleFitting {
    on_backbone::eagle(loaded())
}

/// How a device says that it has no memory left.
#[derive(Clone, Copy, Debug)]
enum Says {
    Error,
    Panic,
}

/// An objective on a device without memory for micro-batches of more than `tokens` tokens.
struct Scarce<O> {
    of: O,
    tokens: usize,
    says: Says,
    /// How often it had to fail.
    failed: AtomicUsize,
}

impl<O: Objective> Scarce<O> {
    fn new(of: O, tokens: usize, says: Says) -> Self {
        Self { of, tokens, says, failed: AtomicUsize::new(0) }
    }

    fn fail(&self) -> Result<Gradients, TrainError> {
        self.failed.fetch_add(1, Ordering::Relaxed);
        match self.says {
            Says::Error => Err(TrainError::Data("the device is out of memory".into())),
            Says::Panic => panic!("DriverError(CUDA_ERROR_OUT_OF_MEMORY)"),
        }
    }
}

impl<O: Objective> Objective for Scarce<O> {
    type Batch = O::Batch;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.of.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<O::Batch>, TrainError> {
        self.of.batches(step)
    }

    fn weights(&self, batch: &O::Batch) -> Vec<f64> {
        self.of.weights(batch)
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &O::Batch, totals: &[f64]) -> Result<Gradients, TrainError> {
        match self.size(batch).tokens > self.tokens {
            true => self.fail(),
            false => self.of.gradients(weights, batch, totals),
        }
    }

    fn size(&self, batch: &O::Batch) -> Size {
        self.of.size(batch)
    }

    fn halves(&self, batch: &O::Batch) -> Option<(O::Batch, O::Batch)> {
        self.of.halves(batch)
    }

    fn place(&self, batch: &O::Batch) -> String {
        self.of.place(batch)
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        self.of.evaluate(parameters)
    }
}

/// Actions and messages of a training.
struct Done {
    parameters: Vec<Vec<f32>>,
    losses: Vec<f64>,
    notes: Vec<String>,
}

impl Done {
    /// Checks for equal losses and parameters, up to the order in which numbers were added.
    fn is_close_to(&self, other: &Self) {
        assert_eq!(self.losses.len(), other.losses.len());
        for (a, b) in self.losses.iter().zip(&other.losses) {
            assert!((a - b).abs() < 1e-5 * b.abs(), "{a} {b}");
        }
        for (a, b) in self.parameters.iter().flatten().zip(other.parameters.iter().flatten()) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
}

fn training(memory_limit_mb: Option<u64>) -> Training {
    let (log_every, save_every, eval_every) = (1, 4, 0);
    Training {
        steps: 12,
        learning_rate: Some(1e-3),
        log_every,
        save_every,
        eval_every,
        memory_limit_mb,
        ..Training::default()
    }
}

/// Fits; asked to stop after `stop_at`, it is started again.
fn run<O: Objective>(
    objective: &O,
    limit: Option<u64>,
    threads: usize,
    stop_at: Option<u64>,
) -> Result<Done, TrainError> {
    let dir = tempfile::tempdir().unwrap();
    let folder = RunDir::create(dir.path(), "test").unwrap();
    let mut settings = training(None).settings(4, 7).unwrap();
    settings.memory_limit = limit;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (stop, mut losses, mut notes) = (AtomicBool::new(false), vec![], vec![]);
    let mut once = || -> Result<Outcome, TrainError> {
        let mut observe = |report: Report| match report {
            Report::Step(record) => {
                stop.store(Some(record.step) == stop_at, Ordering::Relaxed);
                losses.push(record.loss);
            }
            Report::Note(line) => notes.push(line),
            Report::Evaluation(_) | Report::Saved(_) => {}
        };
        pool.install(|| fit(objective, &folder, &settings, &stop, &mut observe))
    };
    let mut outcome = once()?;
    if stop_at.is_some() {
        assert!(!outcome.finished);
        outcome = once()?;
    }
    assert!(outcome.finished);
    Ok(Done { parameters: outcome.parameters.into_iter().map(|p| read(p.value)).collect(), losses, notes })
}

fn check_halves<O: Objective>(objective: &dyn Fn() -> O) {
    let whole = run(&objective(), None, 2, None).unwrap();
    assert!(whole.notes.is_empty());
    // The longest conversation has 28 tokens, micro-batches up to 40.
    for says in [Says::Error, Says::Panic] {
        let scarce = Scarce::new(objective(), 28, says);
        let halved = run(&scarce, None, 2, None).unwrap();
        halved.is_close_to(&whole);
        let failed = scarce.failed.load(Ordering::Relaxed);
        let too_large = (0..12).flat_map(|step| scarce.batches(step).unwrap());
        let too_large = too_large.filter(|batch| scarce.size(batch).tokens > 28).count();
        assert!(failed > 0 && failed < too_large, "{failed} of {too_large}");
        assert!(!halved.notes.is_empty() && halved.notes.len() <= failed, "{:?}", halved.notes);
        assert!(
            halved.notes[0].contains(": a micro-batch of ") && !halved.notes[0].contains('\n'),
            "{:?}",
            halved.notes
        );
        for (threads, stop_at) in [(1, None), (3, None), (2, Some(2)), (2, Some(5))] {
            let again = run(&Scarce::new(objective(), 28, says), None, threads, stop_at).unwrap();
            assert_eq!(again.parameters, halved.parameters, "{threads} {stop_at:?}");
        }
    }
}

/// The sums of halves are the whole's; what did not fit is not tried again; neither threads nor interruptions change a
/// bit.
#[test]
fn halves_give_the_same_and_are_remembered() {
    check_halves(&heads);
    check_halves(&eagle);
}

#[test]
fn a_conversation_that_does_not_fit_is_named() {
    let error = run(&Scarce::new(heads(), 27, Says::Error), None, 2, None).err().unwrap();
    assert!(matches!(error, TrainError::Memory { tokens: 28, available: None, .. }), "{error}");
    let said = error.to_string();
    for word in ["shard-00042.parquet", "28 tokens", "out of memory", "training.max_seq_len = 12"] {
        assert!(said.contains(word), "{said}");
    }
}

/// Anything else that goes wrong is no reason to cut.
#[test]
fn other_panics_stay_panics() {
    struct Broken(HeadFitting);
    impl Objective for Broken {
        type Batch = HeadRows;
        fn parameters(&self, seed: u64) -> Vec<Parameter> {
            self.0.parameters(seed)
        }
        fn batches(&self, step: u64) -> Result<Vec<HeadRows>, TrainError> {
            self.0.batches(step)
        }
        fn weights(&self, batch: &HeadRows) -> Vec<f64> {
            self.0.weights(batch)
        }
        fn gradients(&self, _: &[Tensor<1>], _: &HeadRows, _: &[f64]) -> Result<Gradients, TrainError> {
            panic!("a defect")
        }
        fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
            self.0.evaluate(parameters)
        }
    }
    let caught = std::panic::catch_unwind(|| run(&Broken(heads()), None, 1, None).is_ok());
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"a defect"));
}

/// Bytes that the largest micro-batch of a step of three, and the longest conversation, have at work.
fn sizes<O: Objective>(objective: &O) -> (u64, u64, u64) {
    let values: usize = objective.parameters(0).iter().map(Parameter::len).sum();
    let batches: Vec<O::Batch> = (0..12).flat_map(|step| objective.batches(step).unwrap()).collect();
    let largest = batches.iter().map(|batch| objective.size(batch).bytes).max().unwrap();
    let mut longest = 0;
    let mut open = batches;
    while let Some(batch) = open.pop() {
        match objective.halves(&batch) {
            Some((a, b)) => open.extend([a, b]),
            None => longest = longest.max(objective.size(&batch).bytes),
        }
    }
    (fixed_bytes(values, 3), largest, longest)
}

/// Limits are kept to: first by halves, then by one micro-batch after another, and the impossible is refused.
#[test]
fn a_limit_is_kept_to() {
    let whole = run(&eagle(), None, 2, None).unwrap();
    let (fixed, largest, longest) = sizes(&eagle());
    assert!(longest < largest);
    let ample = run(&eagle(), Some(fixed + 3 * largest), 2, None).unwrap();
    assert!(ample.notes.is_empty() && ample.parameters == whole.parameters);
    for (limit, notes) in [(fixed + 3 * longest, 1), (fixed + longest, 2)] {
        let limited = run(&eagle(), Some(limit), 2, None).unwrap();
        limited.is_close_to(&whole);
        assert_eq!(limited.notes.len(), notes, "{:?}", limited.notes);
        for (threads, stop_at) in [(1, None), (3, None), (2, Some(5))] {
            assert_eq!(run(&eagle(), Some(limit), threads, stop_at).unwrap().parameters, limited.parameters);
        }
    }
    let error = run(&eagle(), Some(fixed + longest - 1), 2, None).err().unwrap();
    assert!(matches!(error, TrainError::Memory { available: Some(_), .. }), "{error}");
    assert!(error.to_string().contains("training.max_seq_len = "), "{error}");
    let error = run(&eagle(), Some(fixed), 2, None).err().unwrap().to_string();
    assert!(error.contains("training.memory_limit_mb") && error.contains("alone take"), "{error}");
}

#[test]
fn the_limit_is_a_key_of_the_config() {
    assert_eq!(training(Some(3)).settings(1, 0).unwrap().memory_limit, Some(3_000_000));
    assert_eq!(training(None).settings(1, 0).unwrap().memory_limit, None);
}
