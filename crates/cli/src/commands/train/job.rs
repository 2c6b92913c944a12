//! One training: what is fitted, how, and what it will take.

use crate::error::Failure;
use crate::fitting;
use crate::printer::{bytes, count};
use crate::settings::Settings;
use gorgon_data::shard::Row;
use gorgon_draft::folder::HeadsFolder;
use gorgon_train::config::TrainConfig;
use gorgon_train::heads::{FeatureCache, OnBackbone, Start};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::FitSettings;
use rayon::prelude::*;
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
        let fit = config.training.settings(per_epoch, config.seed).map_err(fitting::failure)?;
        Ok(Self { objective, fit })
    }

    pub fn count_in(&self, rows: &[Row]) -> usize {
        rows.iter().map(|row| self.objective.positions(&row.example).len()).sum()
    }

    /// Fails if there is nothing to fit to, or nothing to start from where the config names it.
    ///
    /// # Errors
    /// When no conversation has a position with a label, or the heads to start from do not fit.
    pub fn check(&mut self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        if self.count_in(&self.objective.data().rows) > 0 {
            return self.start_from(config, settings);
        }
        let message = format!("{}: no position has a label for what is fitted", config.data.display());
        Err(Failure::input(message).hint("training.max_tokens may cut all answers off"))
    }

    /// Takes the heads that the config names, if it does, as what is there before the first step.
    ///
    /// # Errors
    /// When they are wrong, or others than what is fitted.
    fn start_from(&mut self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        let Some(dir) = &config.start else { return Ok(()) };
        let folder = HeadsFolder::open(dir)?;
        let (parameters, constants) = (self.objective.parameters(config.seed), self.objective.constants());
        let start = Start::read(&folder, &parameters, &constants).map_err(fitting::failure)?;
        self.objective.data_mut().start = Some(start);
        settings.talk.say(format!(
            "starting from the {} in {}",
            folder.detected.format.description(),
            folder.path.display()
        ));
        Ok(())
    }

    /// What the job will take: positions, memory, disk, and time as one micro-batch takes it.
    ///
    /// # Errors
    /// When the backbone fails.
    pub fn say_plan(&self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        let (objective, data) = (&self.objective, self.objective.data());
        let (fitted, measured) = (self.count_in(&data.rows), self.count_in(&data.held_out));
        let parameters: usize = objective.parameters(0).iter().map(Parameter::len).sum();
        settings.talk.say(format!(
            "{} conversations, {} tokens, {} positions to read; {} held-out conversations with {} positions",
            count(data.rows.len() as u128),
            count(data.packing.tokens() as u128),
            count(fitted as u128),
            count(data.held_out.len() as u128),
            count(measured as u128)
        ));
        let model = data.features.decoder.config();
        let at_work = config.training.batches_per_step.min(rayon::current_num_threads());
        // Weights, two moments, the gradients of each micro-batch at work and their sum.
        let fitted_bytes = parameters * 4 * (4 + at_work);
        let batch = objective.bytes_at_work(config.training.batch_tokens);
        let memory = fitted_bytes + at_work * batch + model.vocab_size * model.hidden_size * 4;
        let disk = 3 * 3 * parameters * 4;
        let taps = objective.taps().layers().len();
        let cached = FeatureCache::bytes(fitted + measured, taps, data.features.width(), config.feature_format);
        let features = if config.caches_features() { cached } else { 0 };
        settings.talk.say(format!(
            "{}, {} parameters; {} steps; memory beside the backbone {}; disk {}{}",
            objective.title(),
            count(parameters as u128),
            self.fit.schedule.steps,
            bytes(memory as u64),
            bytes(disk as u64 + features),
            if features > 0 { format!(", {} of it hidden states", bytes(features)) } else { String::new() }
        ));
        self.say_time(config, settings)
    }

    fn say_time(&self, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
        let (reading, fitting_them) = self.time_a_step()?;
        let steps = self.fit.schedule.steps as f64;
        // Cached states are computed once, whatever the number of passes.
        let once = self.objective.data().packing.steps_per_epoch() as f64;
        let readings = if config.caches_features() { steps.min(once) } else { steps };
        settings.talk.say(format!(
            "about {} for training, evaluations apart (a step reads {reading:.2} s and fits {fitting_them:.2} s here)",
            fitting::duration(reading * readings + fitting_them * steps)
        ));
        Ok(())
    }

    /// Seconds of a step: for the backbone's states, and for the gradients. The first of two is a warm-up.
    fn time_a_step(&self) -> Result<(f64, f64), Failure> {
        let objective = &self.objective;
        let weights: Vec<_> = objective.parameters(0).into_iter().map(|p| p.value).collect();
        let batches = objective.batches(0).map_err(fitting::failure)?;
        let totals = vec![1.0; batches.first().map_or(0, |batch| objective.weights(batch).len())];
        let (mut reading, mut all) = (0.0, 0.0);
        for _ in 0..2 {
            let started = Instant::now();
            let read = batches.par_iter().map(|batch| objective.read(batch));
            read.collect::<Result<(), _>>().map_err(fitting::failure)?;
            reading = started.elapsed().as_secs_f64();
            let started = Instant::now();
            let step = batches.par_iter().map(|batch| objective.gradients(&weights, batch, &totals).map(|_| ()));
            step.collect::<Result<(), _>>().map_err(fitting::failure)?;
            all = started.elapsed().as_secs_f64();
        }
        Ok((reading, (all - reading).max(0.0)))
    }
}
