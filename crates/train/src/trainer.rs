//! The one training loop: batches, gradients, clipping, optimizer, metrics, checkpoints.
//!
//! What is fitted to what is an [`Objective`]. A step's data is a function of the step's number alone, so a run that
//! goes on from a checkpoint sees what it would have seen: on the CPU the weights are then equal bit for bit.

mod objective;
mod rehearsal;
mod step;
mod sums;

pub use objective::{Evaluation, Gradients, Objective, Purpose};
pub use rehearsal::Rehearsal;

use self::step::{Done, Fitted};
use self::sums::from_root;
use crate::checkpoint;
use crate::error::TrainError;
use crate::micro_batch::Known;
use crate::optimizer::Optimizer;
use crate::parameters::Parameter;
use crate::schedule::Schedule;
use crate::world::World;
use gorgon_runs::metrics::Metrics;
use gorgon_runs::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub struct FitSettings {
    /// The learning rate.
    pub schedule: Schedule,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Bound on the global norm of a step's gradients.
    pub clip_norm: f64,
    /// Steps between reports.
    pub log_every: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Checkpoints to keep beside the best one.
    pub keep: usize,
    /// Seed of the initial parameters.
    pub seed: u64,
    /// Bytes that fitting may take: parameters, moments, gradients and micro-batches at work.
    pub memory_limit: Option<u64>,
}

/// What is told while fitting.
#[derive(Clone, Debug)]
pub enum Report {
    /// A step, as written to the metrics.
    Step(Map<String, Value>),
    /// An evaluation, as written to the metrics.
    Evaluation(Map<String, Value>),
    /// A checkpoint was written.
    Saved(u64),
    /// Something that a person should know.
    Note(String),
}

/// Where the time of this process went, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Steps.
    pub fitting: f64,
    /// Evaluations.
    pub evaluating: f64,
    /// Checkpoints.
    pub saving: f64,
}

/// How fitting ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps done.
    pub step: u64,
    /// False if it was asked to stop.
    pub finished: bool,
    /// The fitted parameters.
    pub parameters: Vec<Parameter>,
    /// Where the time went.
    pub spent: Spent,
}

/// What a checkpoint remembers beside tensors.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    step: u64,
    best_objective: Option<f64>,
    /// Whether this checkpoint is the best so far.
    is_best: bool,
    /// What did not fit into memory.
    #[serde(default)]
    memory: Known,
}

/// Fits `objective`, from the newest checkpoint of `run` if there is one.
///
/// # Errors
/// When a loss is not finite, the data or a checkpoint cannot be read, or the run folder cannot be written.
pub fn fit<O: Objective>(
    objective: &O,
    run: &RunDir,
    settings: &FitSettings,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Report),
) -> Result<Outcome, TrainError> {
    fit_in(&World::current(), objective, run, settings, stop, observe)
}

/// The same as one of several replicas. Only the first reads and writes checkpoints; the folder of another is for
/// nothing but its log of steps.
///
/// # Errors
/// As of [`fit`]; [`TrainError::Ended`] when another replica is gone.
pub fn fit_in<O: Objective>(
    world: &World,
    objective: &O,
    run: &RunDir,
    settings: &FitSettings,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Report),
) -> Result<Outcome, TrainError> {
    let mut fit = Fit::start(world, objective, run, settings)?;
    while fit.step < settings.schedule.steps {
        let started = Instant::now();
        fit.train_step(observe)?;
        fit.spent.fitting += started.elapsed().as_secs_f64();
        let last = fit.step == settings.schedule.steps;
        let stopping = world.any(stop.load(Ordering::Relaxed))?;
        // Replica 0 evaluates and writes; the next step waits for it.
        if world.is_root() {
            if last || due(fit.step, settings.eval_every) {
                fit.evaluate(observe)?;
            }
            // The best checkpoint holds just the parameters that were measured.
            if last || stopping || fit.is_best || due(fit.step, settings.save_every) {
                fit.save(observe)?;
            }
        }
        if stopping && !last {
            return Ok(fit.outcome(false));
        }
    }
    Ok(fit.outcome(true))
}

fn due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

struct Fit<'a, O> {
    objective: &'a O,
    run: &'a RunDir,
    settings: &'a FitSettings,
    metrics: Metrics,
    fitted: Fitted,
    step: u64,
    best_objective: Option<f64>,
    /// Whether the last evaluation was the best so far, and its checkpoint is still to be written.
    is_best: bool,
    since: Since,
    world: &'a World,
    spent: Spent,
}

/// Sums since the last report.
struct Since {
    started: Instant,
    tokens: usize,
    steps: u64,
}

impl<'a, O: Objective> Fit<'a, O> {
    fn start(
        world: &'a World,
        objective: &'a O,
        run: &'a RunDir,
        settings: &'a FitSettings,
    ) -> Result<Self, TrainError> {
        let mut fitted = Fitted::new(objective, settings);
        let Fitted { parameters, moments, .. } = &mut fitted;
        let mut metrics = Metrics::append(&run.metrics())?;
        let mut state = State { step: 0, best_objective: None, is_best: false, memory: Known::default() };
        if let Some(step) = run.steps()?.last() {
            let checkpoint = run.open_step(*step)?;
            state = checkpoint.state()?;
            checkpoint::read(&run.step(*step), parameters, &objective.constants(), moments)?;
            // A kill can fall between a checkpoint and what follows from it.
            if state.is_best {
                run.set_best(*step)?;
            }
            run.keep_steps(settings.keep)?;
        }
        metrics.truncate_after(state.step)?;
        let since = Since { started: Instant::now(), tokens: 0, steps: 0 };
        let State { mut step, best_objective, memory, .. } = state;
        step = from_root(world, step, parameters, moments)?;
        fitted.memory = memory;
        let is_best = false;
        Ok(Self {
            objective,
            run,
            settings,
            metrics,
            fitted,
            step,
            best_objective,
            is_best,
            since,
            world,
            spent: Spent::default(),
        })
    }

    fn outcome(self, finished: bool) -> Outcome {
        Outcome { step: self.step, finished, parameters: self.fitted.parameters, spent: self.spent }
    }

    /// One training step, and its record.
    fn train_step(&mut self, observe: &mut dyn FnMut(Report)) -> Result<(), TrainError> {
        self.world.in_turn(|| self.objective.prepare(self.step, &self.fitted.parameters))?;
        let Done { sums, norm, rate } =
            self.fitted.step(self.objective, self.settings, self.world, self.step, observe)?;
        self.step += 1;
        self.since.tokens += sums.tokens;
        self.since.steps += 1;
        if due(self.step, self.settings.log_every) || self.step == 1 || self.step == self.settings.schedule.steps {
            let mut record = self.record();
            record.insert("loss".into(), json!(sums.loss));
            record.insert("gradient_norm".into(), json!(norm));
            record.insert("learning_rate".into(), json!(rate));
            for (name, sum, weight) in sums.counts {
                record.insert(name, json!(sum / weight.max(1.0)));
            }
            self.metrics.record(&record)?;
            observe(Report::Step(record));
        }
        Ok(())
    }

    /// Step, speed and what is left, counted since the last report.
    fn record(&mut self) -> Map<String, Value> {
        let seconds = self.since.started.elapsed().as_secs_f64().max(1e-9);
        let left = self.settings.schedule.steps - self.step;
        let mut record = Map::new();
        record.insert("step".into(), json!(self.step));
        record.insert("tokens_per_second".into(), json!(self.since.tokens as f64 / seconds));
        record.insert("eta_seconds".into(), json!(left as f64 * seconds / self.since.steps.max(1) as f64));
        self.since = Since { started: Instant::now(), tokens: 0, steps: 0 };
        record
    }

    fn evaluate(&mut self, observe: &mut dyn FnMut(Report)) -> Result<(), TrainError> {
        let started = Instant::now();
        let evaluation = self.objective.evaluate(&self.fitted.parameters)?;
        // Evaluation is no part of the training speed.
        self.since.started += started.elapsed();
        self.spent.evaluating += started.elapsed().as_secs_f64();
        let mut record = Map::new();
        record.insert("step".into(), json!(self.step));
        record.insert("evaluation".into(), Value::Object(evaluation.metrics));
        self.metrics.record(&record)?;
        self.is_best = self.best_objective.is_none_or(|best| evaluation.objective < best);
        if self.is_best {
            self.best_objective = Some(evaluation.objective);
        }
        observe(Report::Evaluation(record));
        Ok(())
    }

    fn save(&mut self, observe: &mut dyn FnMut(Report)) -> Result<(), TrainError> {
        let started = Instant::now();
        // No checkpoint may be ahead of its metrics.
        self.metrics.sync()?;
        let Fitted { parameters, moments, memory } = &self.fitted;
        let state =
            State { step: self.step, best_objective: self.best_objective, is_best: self.is_best, memory: *memory };
        self.run.write_step(self.step, |dir| {
            checkpoint::write(dir, parameters, &self.objective.constants(), moments)?;
            if let Some(document) = self.objective.document() {
                let text = serde_json::to_string_pretty(&document)?;
                gorgon_runs::atomic::write(&dir.join("config.json"), |file| file.write_all(text.as_bytes()))?;
            }
            Ok(state)
        })?;
        if self.is_best {
            self.run.set_best(self.step)?;
            self.is_best = false;
        }
        self.run.keep_steps(self.settings.keep)?;
        self.spent.saving += started.elapsed().as_secs_f64();
        observe(Report::Saved(self.step));
        Ok(())
    }
}
