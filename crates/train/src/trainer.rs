//! The one training loop: batches, gradients, clipping, optimizer, metrics, checkpoints.
//!
//! An [`Objective`] has the parameters, the data and the loss. The data of a step is a function of the step's number
//! alone. So a resumed run reads the same data as one that never stopped: on the CPU the weights are equal bit for bit.

mod dry_run;
pub(crate) mod objective;
mod report;
mod settings;
mod step;

pub use dry_run::DryRun;
pub use objective::{Evaluation, Gradients, Objective, Purpose, Size};
pub use report::{EvaluationRecord, Means, Outcome, Report, Spent, StepRecord};
pub use settings::FitSettings;

use self::step::{Done, Fitted};
use crate::checkpoint::{self, State};
use crate::config::changes_evaluation;
use crate::error::TrainError;
use crate::process_group::ProcessGroup;
use gorgon_runs::metrics::{self, Metrics};
use gorgon_runs::run_dir::RunDir;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    fit_in(&ProcessGroup::current(), objective, run, settings, stop, observe)
}

/// [`fit`] as one of several replicas. Only rank 0 reads and writes checkpoints; another rank's folder holds nothing
/// but its log of steps.
///
/// # Errors
/// As of [`fit`]; [`TrainError::Ended`] when another replica failed.
pub fn fit_in<O: Objective>(
    group: &ProcessGroup,
    objective: &O,
    run: &RunDir,
    settings: &FitSettings,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Report),
) -> Result<Outcome, TrainError> {
    let mut fit = Fit::start(group, objective, run, settings)?;
    if settings.keep_start && group.is_root() && fit.step == 0 && run.steps()?.is_empty() {
        fit.evaluate(observe)?;
        fit.save(observe)?;
    }
    while fit.step < settings.schedule.steps {
        let started = Instant::now();
        fit.train_step(observe)?;
        fit.spent.fitting += started.elapsed().as_secs_f64();
        let last = fit.step == settings.schedule.steps;
        let stopping = group.any(stop.load(Ordering::Relaxed))?;
        // Rank 0 evaluates and writes; the next step waits for it.
        if group.is_root() {
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

/// Whether the config was changed since the last evaluation, so that the next one may measure something else.
fn evaluation_changed(path: &Path) -> Result<bool, TrainError> {
    let records = metrics::read(path)?;
    let last = |of: &dyn Fn(&Value) -> bool| records.iter().filter(|r| of(r)).filter_map(|r| r["step"].as_u64()).max();
    let changed = last(&|record| record["changed"]["key"].as_str().is_some_and(changes_evaluation));
    // At the step of a change itself, evaluations are those of the config before.
    Ok(changed.is_some() && last(&|record| record.get("evaluation").is_some()) <= changed)
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
    group: &'a ProcessGroup,
    spent: Spent,
}

/// Sums since the last report.
struct Since {
    started: Instant,
    tokens: usize,
    steps: u64,
}

impl Since {
    fn now() -> Self {
        Self { started: Instant::now(), tokens: 0, steps: 0 }
    }
}

impl<'a, O: Objective> Fit<'a, O> {
    fn start(
        group: &'a ProcessGroup,
        objective: &'a O,
        run: &'a RunDir,
        settings: &'a FitSettings,
    ) -> Result<Self, TrainError> {
        let mut fitted = Fitted::new(objective, settings);
        let Fitted { parameters, moments, .. } = &mut fitted;
        let mut metrics = Metrics::append(&run.metrics())?;
        let mut state = State::default();
        if let Some(step) = run.steps()?.last() {
            state = State::read(run, *step)?;
            checkpoint::read(&run.step(*step), parameters, &objective.constants(), moments)?;
            // A kill can fall between writing a checkpoint and naming it the best.
            if state.is_best {
                run.set_best(*step)?;
            }
            run.keep_steps(settings.save_total_limit)?;
        }
        metrics.truncate_after(state.step)?;
        let since = Since::now();
        let step = group.broadcast_state(state.step, parameters, moments)?;
        fitted.memory = state.memory;
        // The values of different evaluations are not compared: the next one is the best again.
        let best_objective = if evaluation_changed(&run.metrics())? { None } else { state.best_objective };
        let (is_best, spent) = (false, Spent::default());
        Ok(Self { objective, run, settings, metrics, fitted, step, best_objective, is_best, since, group, spent })
    }

    fn outcome(self, finished: bool) -> Outcome {
        let Self { step, spent, .. } = self;
        Outcome { step, finished, parameters: self.fitted.parameters, spent }
    }

    /// One training step, and its record.
    fn train_step(&mut self, observe: &mut dyn FnMut(Report)) -> Result<(), TrainError> {
        self.group.local_root_first(|| self.objective.prepare(self.step, &self.fitted.parameters))?;
        let done = self.fitted.step(self.objective, self.settings, self.group, self.step, observe)?;
        self.step += 1;
        self.since.tokens += done.sums.tokens;
        self.since.steps += 1;
        if due(self.step, self.settings.log_every) || self.step == 1 || self.step == self.settings.schedule.steps {
            let record = self.record(done);
            self.metrics.record(&record)?;
            observe(Report::Step(record));
        }
        Ok(())
    }

    /// The record of the last step. Its speed is counted since the last record.
    fn record(&mut self, Done { sums, norm, rate }: Done) -> StepRecord {
        let since = std::mem::replace(&mut self.since, Since::now());
        let seconds = since.started.elapsed().as_secs_f64().max(1e-9);
        let left = self.settings.schedule.steps - self.step;
        let mean = |(name, sum, weight): (String, f64, f64)| (name, sum / weight.max(1.0));
        StepRecord {
            step: self.step,
            total_steps: self.settings.schedule.steps,
            tokens_per_second: since.tokens as f64 / seconds,
            eta_seconds: left as f64 * seconds / since.steps.max(1) as f64,
            loss: sums.loss,
            gradient_norm: norm,
            learning_rate: rate,
            means: Means(sums.counts.into_iter().map(mean).collect()),
        }
    }

    fn evaluate(&mut self, observe: &mut dyn FnMut(Report)) -> Result<(), TrainError> {
        if !self.settings.evaluates {
            self.is_best = true;
            return Ok(());
        }
        let started = Instant::now();
        let evaluation = self.objective.evaluate(&self.fitted.parameters)?;
        // Evaluation is no part of the training speed.
        self.since.started += started.elapsed();
        self.spent.evaluating += started.elapsed().as_secs_f64();
        let acceptance = evaluation.metrics.acceptance().filter(|_| self.settings.keep_start);
        let objective = acceptance.map_or(evaluation.objective, |acceptance| -acceptance);
        let record = EvaluationRecord { step: self.step, evaluation: evaluation.metrics };
        self.metrics.record(&record)?;
        self.is_best = self.best_objective.is_none_or(|best| objective < best);
        if self.is_best {
            self.best_objective = Some(objective);
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
        self.run.keep_steps(self.settings.save_total_limit)?;
        self.spent.saving += started.elapsed().as_secs_f64();
        observe(Report::Saved(self.step));
        Ok(())
    }
}
