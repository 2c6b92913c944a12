//! A pretraining that is about to begin: what is fitted, how, and what it will take.

use super::corpus::Corpus;
use crate::estimate::{self, Disk, FittingCost, Plan, Pool, Watch};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{bytes, count, duration};
use gorgon_data::pack::Packing;
use gorgon_data::render::{Example, Renderer};
use gorgon_model::config::ModelConfig;
use gorgon_train::config::PretrainConfig;
use gorgon_train::llama::Llama;
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::Pretraining;
use gorgon_train::schedule::Restart;
use gorgon_train::trainer::{FitSettings, Objective};
use std::path::Path;

/// Prepares a training on the first device, and estimates what it will take.
///
/// # Errors
/// When the data cannot be rendered, or the model does not fit.
pub(super) fn prepare(
    config: &PretrainConfig,
    corpus: &Corpus,
    tokenizer: &Path,
    settings: &Settings,
) -> Result<Prepared, Failure> {
    let (mut objective, fit) = make(config, corpus, tokenizer, settings)?;
    let (watch, pool) = (Watch::start(), Pool::of(&settings.compute()?));
    let mut plan = plan(&mut objective, &fit, settings, config.training.gradient_accumulation, pool.as_ref())?;
    plan.before = watch.before();
    // The discarded steps are no part of what the run takes.
    watch.forget_peak();
    pool.iter().for_each(Pool::shrink);
    Ok(Prepared { objective, fit, plan, watch, pool })
}

/// Prepares the model, data and settings of a pretraining on the device of `settings`.
///
/// # Errors
/// When the data cannot be rendered, or a setting is wrong.
pub(super) fn make(
    config: &PretrainConfig,
    corpus: &Corpus,
    tokenizer: &Path,
    settings: &Settings,
) -> Result<(Pretraining, FitSettings), Failure> {
    let compute = settings.compute()?;
    compute.check_whole("pretrain")?;
    let renderer = Renderer::load(tokenizer)?;
    // A model can have more rows than its tokenizer has tokens; one that drafts for it needs as many.
    let vocab_size = ModelConfig::read(tokenizer)?.vocab_size;
    let longest = config.training.max_seq_len.min(config.model.max_positions);
    let (examples, held_out) = corpus.examples(&renderer, longest)?;
    let training = &config.training;
    let lengths = examples.iter().map(|e| e.ids.len()).collect();
    let packing = Packing::new(lengths, training.micro_batch_tokens, training.gradient_accumulation, config.seed);
    let mut fit_settings = training.settings(packing.steps_per_epoch(), config.seed)?;
    let last_part = fit_settings.schedule.steps;
    let finish = finishing(config, &fit_settings, (corpus, &renderer, longest))?;
    if let Some(Finishing { restart, packing, .. }) = &finish {
        fit_settings.schedule.restart = Some(*restart);
        fit_settings.schedule.steps += packing.steps_per_epoch();
    }
    let teaches = |examples: &[Example]| examples.iter().any(|example| example.labels() > 0);
    if !teaches(&examples) || finish.as_ref().is_some_and(|finish| !teaches(&finish.examples)) {
        return Err(Failure::input("no token of the data is the assistant's: there is nothing to learn from"));
    }
    let shape = config.model.with_vocabulary(vocab_size)?;
    let llama = Llama::new(shape, compute.device().clone());
    let all = examples.iter().chain(finish.iter().flat_map(|finish| &finish.examples));
    report_sizes(all, llama.sizes().iter().sum(), fit_settings.schedule.steps, settings);
    let mut objective = Pretraining::new(llama, shape, examples, held_out, packing, config.data.prompt_weight);
    if let Some(Finishing { packing, examples, .. }) = finish {
        objective = objective.finishing(last_part, examples, packing);
    }
    Ok((objective, fit_settings))
}

/// Reports how much there is to fit, and to what.
fn report_sizes<'a>(
    examples: impl Iterator<Item = &'a Example> + Clone,
    parameters: usize,
    steps: u64,
    settings: &Settings,
) {
    settings.console.say(format!(
        "{} conversations, {} tokens, {} of them answers; {} parameters ({} as f16); {steps} steps",
        count(examples.clone().count() as u128),
        count(examples.clone().map(|example| example.ids.len() as u128).sum()),
        count(examples.map(Example::labels).sum::<usize>() as u128),
        count(parameters as u128),
        bytes(2 * parameters as u64),
    ));
}

/// The last part of a training.
struct Finishing {
    restart: Restart,
    examples: Vec<Example>,
    packing: Packing,
}

/// The last part, if the config has one, after the steps of the first.
fn finishing(
    config: &PretrainConfig,
    first: &FitSettings,
    (corpus, renderer, longest): (&Corpus, &Renderer, usize),
) -> Result<Option<Finishing>, Failure> {
    let (Some(finish), training) = (&config.finish, &config.training) else { return Ok(None) };
    let examples = corpus.finish(finish, renderer, longest)?;
    let lengths = examples.iter().map(|e| e.ids.len()).collect();
    let tokens = finish.micro_batch_tokens.unwrap_or(training.micro_batch_tokens);
    let packing = Packing::new(lengths, tokens, training.gradient_accumulation, config.seed);
    let warmup_steps = (packing.steps_per_epoch() as f64 * training.warmup).round() as u64;
    let restart = Restart { at: first.schedule.steps, peak: finish.learning_rate, warmup_steps };
    Ok(Some(Finishing { restart, examples, packing }))
}

/// Model, data, settings and plan of a pretraining.
pub(super) struct Prepared {
    pub objective: Pretraining,
    pub fit: FitSettings,
    pub plan: Plan,
    pub watch: Watch,
    pub pool: Option<Pool>,
}

/// Estimates memory and time from a few discarded steps, disk by formula.
fn plan(
    objective: &mut Pretraining,
    fit: &FitSettings,
    settings: &Settings,
    at_once: usize,
    pool: Option<&Pool>,
) -> Result<Plan, Failure> {
    let (parameters, disk) = {
        let all = objective.parameters(0);
        let parameters = all.iter().map(Parameter::len).sum();
        (parameters, Disk::of_run(parameters, fit.optimizer.values(&all), all.len(), fit))
    };
    let few = estimate::longest(objective.held_out_mut(), |example| example.ids.len());
    let all = std::mem::replace(objective.held_out_mut(), few);
    let found = FittingCost::measure(objective, fit, objective.one_pass(fit.schedule.steps), pool);
    *objective.held_out_mut() = all;
    let found = found?;
    let found = found.divided(parameters, settings, at_once);
    let (memory, seconds, pool) = (found.memory, found.seconds, pool.map(Pool::grown));
    settings.console.say(format!(
        "{} {}; {}; about {} for training, evaluations apart",
        if pool.is_some() { "device memory" } else { "memory beside the conversations" },
        bytes(pool.unwrap_or(memory)),
        disk.words(),
        duration(seconds)
    ));
    Ok(Plan { memory, before: None, memory_by_formula: found.by_formula, pool, disk, seconds: Some(seconds) })
}
