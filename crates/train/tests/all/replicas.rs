//! Replicas on threads of this process, each with objective and backbone of its own: what they fit is what one alone
//! does, they stop together, and none waits for one that failed.

use crate::on_backbone;

use burn::tensor::Tensor;
use gorgon_data::pack::Packing;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::error::TrainError;
use gorgon_train::methods::{Conversations, EagleFitting, HeadFitting, OnBackbone};
use gorgon_train::parameters::Parameter;
use gorgon_train::process_group::ProcessGroup;
use gorgon_train::trainer::{Evaluation, FitSettings, Gradients, Objective, Outcome, Report, fit_in};
use on_backbone::{loaded, training};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// With five micro-batches in a step.
fn data() -> Conversations {
    let data = loaded();
    let lengths = data.rows.iter().map(|row| row.example.ids.len()).collect();
    Conversations { packing: Packing::new(lengths, 24, 5, 1), ..data }
}

fn medusa() -> HeadFitting {
    on_backbone::heads(data())
}

fn eagle() -> EagleFitting {
    on_backbone::eagle(data())
}

/// How a job of replicas resumes after its last checkpoint in `dir`.
struct Job<'a> {
    dir: &'a Path,
    replicas: usize,
    /// The step after which it is asked to stop.
    stop_at: Option<u64>,
}

impl Job<'_> {
    /// Result of each replica; a panic is an error of its own.
    fn run<O: Objective>(&self, make: impl Fn(usize) -> O + Sync) -> Vec<Result<Outcome, TrainError>> {
        let settings: FitSettings = FitSettings { eval_every: 20, ..training(50).settings(4, 7).unwrap() };
        let (stop, make, settings) = (&AtomicBool::new(false), &make, &settings);
        let life = |number: usize, group: ProcessGroup| {
            let scratch = tempfile::tempdir().unwrap();
            let run = if number == 0 { open(self.dir) } else { RunDir::create(scratch.path(), "replica").unwrap() };
            let mut observe = |report: Report| {
                if let Report::Step(record) = report {
                    stop.fetch_or(Some(record.step) == self.stop_at && number == 0, Ordering::Relaxed);
                }
            };
            fit_in(&group, &make(number), &run, settings, stop, &mut observe)
        };
        let contained = |number: usize, group: ProcessGroup| {
            let done = catch_unwind(AssertUnwindSafe(|| life(number, group)));
            done.unwrap_or_else(|_| Err(TrainError::Data("it panicked".into())))
        };
        let contained = &contained;
        std::thread::scope(|scope| {
            let members = ProcessGroup::replicas(self.replicas).into_iter().enumerate();
            let threads: Vec<_> =
                members.map(|(number, group)| scope.spawn(move || contained(number, group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// The parameters of all of them, which have to be the same. Returns them and the steps done.
    fn fitted<O: Objective>(&self, make: impl Fn() -> O + Sync) -> (u64, Vec<Vec<f32>>) {
        let outcomes: Vec<Outcome> = self.run(|_| make()).into_iter().map(Result::unwrap).collect();
        let values =
            |outcome: &Outcome| -> Vec<Vec<f32>> { outcome.parameters.iter().map(|p| read(p.value.clone())).collect() };
        let first = values(&outcomes[0]);
        for outcome in &outcomes {
            assert_eq!((outcome.step, outcome.finished), (outcomes[0].step, outcomes[0].finished));
            assert_eq!(values(outcome), first);
        }
        (outcomes[0].step, first)
    }
}

/// The one run folder of a job.
fn open(dir: &Path) -> RunDir {
    let there = std::fs::read_dir(dir).unwrap().next();
    there.map_or_else(|| RunDir::create(dir, "test").unwrap(), |run| RunDir::open(&run.unwrap().path()).unwrap())
}

fn check_numbers<O: OnBackbone>(make: impl Fn() -> O + Sync) {
    let fitted = |replicas: usize| {
        let dir = tempfile::tempdir().unwrap();
        Job { dir: dir.path(), replicas, stop_at: None }.fitted(&make)
    };
    let one = fitted(1);
    assert_eq!(one.0, 50);
    // The last one never has a micro-batch.
    for replicas in [2, 4, 6] {
        assert_eq!(fitted(replicas), one, "{replicas} replicas");
    }
}

#[test]
fn any_number_fits_the_same_medusa_heads() {
    check_numbers(medusa);
}

/// Each replica computes the states of its own micro-batches.
#[test]
fn any_number_draws_the_same_positions() {
    check_numbers(|| medusa().shuffled(40, 5, 1));
}

#[test]
fn any_number_fits_the_same_eagle_layer() {
    check_numbers(eagle);
}

#[test]
fn all_stop_at_the_same_step_and_another_number_goes_on() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = Job { dir: undisturbed.path(), replicas: 1, stop_at: None }.fitted(medusa);
    let dir = tempfile::tempdir().unwrap();
    let job = |replicas, stop_at| Job { dir: dir.path(), replicas, stop_at };
    assert_eq!(job(2, Some(13)).fitted(medusa).0, 13);
    assert_eq!(job(3, Some(31)).fitted(medusa).0, 31);
    assert_eq!(job(1, Some(37)).fitted(medusa).0, 37);
    assert_eq!(job(4, None).fitted(medusa), whole);
}

/// How an objective fails.
#[derive(Clone, Copy, Debug)]
enum How {
    Error,
    Panic,
    NotFinite,
    Evaluating,
}

/// An objective that fails at a step, counted from 0, or when it evaluates.
struct Failing {
    of: HeadFitting,
    how: Option<How>,
    at: u64,
}

impl Objective for Failing {
    type Batch = (u64, <HeadFitting as Objective>::Batch);

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.of.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<Self::Batch>, TrainError> {
        Ok(self.of.batches(step)?.into_iter().map(|batch| (step, batch)).collect())
    }

    fn weights(&self, (_, batch): &Self::Batch) -> Vec<f64> {
        self.of.weights(batch)
    }

    fn gradients(
        &self,
        weights: &[Tensor<1>],
        (step, batch): &Self::Batch,
        totals: &[f64],
    ) -> Result<Gradients, TrainError> {
        let done = self.of.gradients(weights, batch, totals)?;
        match self.how.filter(|_| *step == self.at) {
            Some(How::Error) => Err(TrainError::Data("planned".into())),
            Some(How::Panic) => panic!("planned"),
            Some(How::NotFinite) => Ok(Gradients { not_finite: Some("planned".into()), ..done }),
            Some(How::Evaluating) | None => Ok(done),
        }
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        match self.how {
            Some(How::Evaluating) => Err(TrainError::Data("planned".into())),
            _ => self.of.evaluate(parameters),
        }
    }
}

#[test]
fn a_failing_replica_ends_all_and_leaves_the_last_checkpoint() {
    let cases =
        [(0, How::Error), (1, How::Error), (2, How::Error), (1, How::Panic), (0, How::Panic), (2, How::NotFinite)];
    for (failing, how) in cases.into_iter().chain([(0, How::Evaluating)]) {
        let dir = tempfile::tempdir().unwrap();
        let job = Job { dir: dir.path(), replicas: 3, stop_at: None };
        // The first evaluation is after step 20.
        let results = job.run(|number| Failing { of: medusa(), how: Some(how).filter(|_| number == failing), at: 20 });
        for (number, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            assert_eq!(matches!(error, TrainError::Ended), number != failing, "{failing} {how:?}, {number}: {error}");
        }
        let run = open(dir.path());
        let last = *run.steps().unwrap().last().unwrap();
        assert_eq!(last, if matches!(how, How::Evaluating) { 16 } else { 20 }, "{how:?}");
        run.open_step(last).unwrap();
    }
}
