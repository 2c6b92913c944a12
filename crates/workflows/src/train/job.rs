//! One training: what is fitted, how, and what it will take.

use crate::estimate::{self, Disk, FittingCost, Plan, Pool, Watch};
use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use crate::units::{bytes, count, duration};
use gorgon_data::shard::Row;
use gorgon_kernels::team;
use gorgon_train::config::TrainConfig;
use gorgon_train::methods::{FeatureCache, InitialValues, OnBackbone};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::FitSettings;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// An objective and how to fit it.
pub struct Job<F> {
    pub objective: F,
    pub fit: FitSettings,
}

impl<F: OnBackbone> Job<F> {
    /// Settles the number of steps.
    ///
    /// # Errors
    /// When a setting is wrong.
    pub fn new(objective: F, config: &TrainConfig) -> Result<Self, Failure> {
        let per_epoch = objective.data().packing.steps_per_epoch();
        let fit = config.training.settings(per_epoch, config.seed).map_err(|errors| Failure::settings(&errors))?;
        Ok(Self { objective, fit: FitSettings { keep_start: config.keep_start, ..fit } })
    }

    /// The shards that the conversations were read from, as far as they are there: a log of corrections gives up its
    /// oldest ones.
    pub fn inputs(&self, config: &TrainConfig) -> Vec<PathBuf> {
        let data = self.objective.data();
        let held_out: &[Row] = if config.eval_data.is_none() { &data.held_out } else { &[] };
        let names: BTreeSet<&String> = data.whole().iter().chain(held_out).map(|row| &row.shard).collect();
        names.into_iter().map(|name| config.data.join(name)).filter(|path| path.is_file()).collect()
    }

    pub fn count_in(&self, rows: &[Row]) -> usize {
        rows.iter().map(|row| self.objective.positions(&row.example).len()).sum()
    }

    /// Fails if there is nothing to fit to, or nothing to start from where the config names it.
    ///
    /// # Errors
    /// When no conversation has a position with a label, or the heads to start from do not fit.
    pub fn check(&mut self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        let data = self.objective.data();
        if self.count_in(&data.rows) == 0 {
            let message = format!("{}: no position has a label for what is fitted", config.data.display());
            let hint = match self.count_in(&data.held_out) {
                0 => "training.max_seq_len may cut all answers off".into(),
                _ => format!("all answers are held out: lower held_out = {}", config.held_out),
            };
            return Err(Failure::input(message).hint(hint));
        }
        self.fit.evaluates = self.count_in(&data.held_out) > 0;
        if !self.fit.evaluates {
            let none = "no held-out position has a label";
            if config.keep_start {
                let message = format!("keep_start: {none}, so nothing tells what is better");
                return Err(Failure::input(message).hint("held_out or eval_data gives some"));
            }
            let advice = "a larger held_out or more conversations give some";
            settings.console.say(format!("warning: {none}, so accuracy is not measured; {advice}"));
        }
        self.start_from(config, settings)
    }

    /// Takes the heads that the config names, if it does, as what is there before the first step.
    ///
    /// # Errors
    /// When they are wrong, or others than what is fitted.
    fn start_from(&mut self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        let Some(dir) = &config.init_from else { return Ok(()) };
        let folder = load::heads(dir, &settings.console)?;
        let (parameters, constants) = (self.objective.parameters(config.seed), self.objective.constants());
        let values = InitialValues::read(&folder, &parameters, &constants).map_err(Failure::training)?;
        self.objective.data_mut().init_from = Some(values);
        settings.console.say(format!(
            "starting from the {} in {}",
            folder.detected.format.description(),
            folder.path.display()
        ));
        Ok(())
    }

    /// Predicts memory beyond the state when `watch` began, disk, and time from one step. `done` steps of the run that
    /// is resumed are behind it.
    ///
    /// # Errors
    /// When the backbone fails, or a single conversation does not fit into memory.
    pub fn plan(
        &mut self,
        config: &TrainConfig,
        settings: &Settings,
        (watch, pool): (&Watch, Option<&Pool>),
        done: u64,
    ) -> Result<Plan, Failure> {
        let data = self.objective.data();
        let (fitted, measured) = (self.count_in(data.whole()), self.count_in(&data.held_out));
        let (parameters, mut disk) = self.on_disk();
        settings.console.say(format!(
            "{} conversations{}, {} tokens, {} positions to read; {} held-out conversations with {} positions",
            count(data.whole().len() as u128),
            match data.windows.starts() {
                Some(starts) => format!(" in {} windows", count(starts.len() as u128)),
                None => String::new(),
            },
            count(data.packing.tokens() as u128),
            count(fitted as u128),
            count(data.held_out.len() as u128),
            count(measured as u128)
        ));
        let (reading, found) = self.measure(config, parameters, settings, (watch, pool))?;
        let pool = pool.map(Pool::grown);
        disk.other = self.objective.published_bytes(parameters);
        let features = if config.caches_features() { self.cached_bytes(config, fitted + measured) } else { 0 };
        let cached = if features > 0 { format!("; hidden states {}", bytes(features)) } else { String::new() };
        settings.console.say(format!(
            "{}, {} parameters; {} steps; {} beside the backbone {}; {}{cached}",
            self.objective.title(),
            count(parameters as u128),
            self.fit.schedule.steps,
            if pool.is_some() { "device memory" } else { "memory" },
            bytes(pool.unwrap_or(found.memory)),
            disk.words()
        ));
        let fitting_them = (found.seconds / self.fit.schedule.steps.max(1) as f64 - reading).max(0.0);
        let seconds = Some(self.report_time(config, (reading, fitting_them), done, settings));
        let FittingCost { memory, by_formula: memory_by_formula, .. } = found;
        Ok(Plan { memory, before: watch.before(), memory_by_formula, pool, disk, seconds })
    }

    /// How many values are fitted, and what is written of them.
    fn on_disk(&self) -> (usize, Disk) {
        let all = self.objective.parameters(0);
        let parameters = all.iter().map(Parameter::len).sum();
        (parameters, Disk::of_run(parameters, self.fit.optimizer.values(&all), all.len(), &self.fit))
    }

    /// Measures a step on all devices together: seconds of reading, and seconds of all with everything loaded since
    /// `watch` began: the LM head, conversations.
    fn measure(
        &mut self,
        config: &TrainConfig,
        parameters: usize,
        settings: &Settings,
        (watch, pool): (&Watch, Option<&Pool>),
    ) -> Result<(f64, FittingCost), Failure> {
        let at_once = config.training.gradient_accumulation;
        let reading = self.time_reading()? * estimate::share_of_time(settings, at_once);
        let steps = self.objective.data().packing.steps_per_epoch().min(self.fit.schedule.steps);
        let loaded = watch.grown();
        let measure = |job: &Self| FittingCost::measure(&job.objective, &job.fit, 0..steps.max(1), pool);
        let found = self.with_few_held_out(measure)?;
        let found = found.divided(parameters, settings, at_once);
        let config = self.objective.data().features.decoder.config();
        let lm_head = 4 * config.vocab_size * config.hidden_size + self.objective.lm_head().panel_bytes();
        let by_formula = found.by_formula + lm_head as u64;
        let memory = found.memory + loaded.unwrap_or(lm_head as u64);
        Ok((reading, FittingCost { memory, by_formula, ..found }))
    }

    /// Does something while there are only the longest held-out conversations, of which the first leaves room for an
    /// answer, if one does.
    fn with_few_held_out<R>(&mut self, work: impl FnOnce(&Self) -> R) -> R {
        let data = self.objective.data_mut();
        let context = data.features.decoder.config().max_positions;
        let prompt = |row: &Row| row.example.assistant.iter().position(|own| *own).unwrap_or(0);
        let room = |row: &&Row| prompt(row) > 0 && prompt(row) + data.decoded_tokens <= context;
        let decoded = data.held_out.iter().filter(room).max_by_key(|row| prompt(row)).cloned();
        let others = estimate::longest(&data.held_out, |row| row.example.ids.len());
        let few = decoded.into_iter().chain(others).collect();
        let (all, prompts) = (std::mem::replace(&mut data.held_out, few), data.decoded_prompts);
        data.decoded_prompts = prompts.min(1);
        let done = work(self);
        let data = self.objective.data_mut();
        (data.held_out, data.decoded_prompts) = (all, prompts);
        done
    }

    /// Bytes of hidden states at so many positions.
    fn cached_bytes(&self, config: &TrainConfig, positions: usize) -> u64 {
        let hooks = self.objective.hooks().layers().len();
        FeatureCache::bytes(positions, hooks, self.objective.data().features.width(), config.feature_format)
    }

    /// Reports what reading and fitting take, seconds of a step each, for the steps behind the first `done`. Returns the
    /// seconds of all steps.
    fn report_time(
        &self,
        config: &TrainConfig,
        (reading, fitting_them): (f64, f64),
        done: u64,
        settings: &Settings,
    ) -> f64 {
        // Cached states are computed once, before the first step; those that all stay in memory, in the first steps.
        let data = self.objective.data();
        // Windows overlap, and those without labels are left out.
        let whole = data.whole().iter().map(|row| row.example.ids.len()).sum::<usize>() as f64;
        let share = whole / data.packing.tokens().max(1) as f64;
        let once = reading * share * data.packing.steps_per_epoch() as f64;
        let before = if config.caches_features() { once } else { 0.0 };
        let during = |steps: f64| match config.caches_features() {
            true => 0.0,
            false if self.objective.reads_once() => once.min(reading * steps),
            false => reading * steps,
        };
        let of = |steps: u64| during(steps as f64) + fitting_them * steps as f64;
        let seconds = of(self.fit.schedule.steps);
        let a_step = format!("(a step reads {reading:.2} s and fits {fitting_them:.2} s here)");
        settings.console.say(match self.fit.schedule.steps.saturating_sub(done) {
            0 => "all steps are done".into(),
            left if done > 0 => {
                format!("about {} for the {left} steps left, evaluations apart {a_step}", duration(of(left)))
            }
            _ => {
                let ahead = (before > 0.0).then(|| format!("{} for hidden states, then ", duration(before)));
                let (ahead, seconds) = (ahead.unwrap_or_default(), duration(seconds));
                format!("about {ahead}{seconds} for training, evaluations apart {a_step}")
            }
        });
        seconds
    }

    /// Seconds that the backbone's states of a step take.
    fn time_reading(&self) -> Result<f64, Failure> {
        let objective = &self.objective;
        if objective.data().windows.starts().is_some() {
            // The cache reads whole conversations.
            self.read_longest()?;
        }
        let batches = objective.batches(0).map_err(Failure::training)?;
        let mut reading = 0.0;
        // The first of two is a warm-up.
        for _ in 0..2 {
            let started = Instant::now();
            let read = batches.par_iter().map(|batch| team::one_of(batches.len(), || objective.read(batch)));
            read.collect::<Result<(), _>>().map_err(Failure::training)?;
            reading = started.elapsed().as_secs_f64();
        }
        Ok(reading)
    }
}
