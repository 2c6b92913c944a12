//! `gorgon pretrain`: a small Llama from scratch.

use crate::args::Fit;
use crate::commands::load;
use crate::commands::pretrain_data::Corpus;
use crate::config;
use crate::error::Failure;
use crate::estimate::{self, Disk, Fitting, Plan, Pool, Took, Watch};
use crate::fitting::{self, Progress};
use crate::printer::{bytes, count};
use crate::replicas::{self, Lead};
use crate::settings::Settings;
use gorgon_data::pack::Packing;
use gorgon_data::render::{Example, Renderer};
use gorgon_data::synth;
use gorgon_data::vocabulary;
use gorgon_model::config::ModelConfig;
use gorgon_model::text::Text;
use gorgon_train::config::PretrainConfig;
use gorgon_train::llama::Llama;
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::{self, Pretraining};
use gorgon_train::schedule::Restart;
use gorgon_train::trainer::{FitSettings, Objective};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config = checked(args)?;
    let replicas = settings.divided();
    let settings = &replicas[0];
    let corpus = Corpus::read(&config, settings)?;
    if args.dry_run {
        let folder = tempfile::tempdir().map_err(Failure::run)?;
        let tokenizer = tokenizer(&config, &corpus, folder.path(), settings)?;
        prepare(&config, &corpus, &tokenizer, settings)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Where the model will be written in the end.
    load::check_writable(&config.out)?;
    let stem = format!("pretrain-{}", fitting::stem(&config.out));
    let inputs = &config.data.files;
    let run = fitting::run_folder(&config.runs, &stem, args.resume.as_deref(), &config, inputs, settings)?;
    settings.talk.say(format!("run folder {}", run.path().display()));
    let tokenizer = tokenizer(&config, &corpus, run.path(), settings)?;
    let Prepared { objective, fit: fit_settings, mut plan, watch, pool } =
        prepare(&config, &corpus, &tokenizer, settings)?;
    plan.disk.rest = estimate::folder_bytes(run.path());
    let progress = Progress::new(&run, &fit_settings, settings);
    let lead = Lead { objective: &objective, run: &run, fit: &fit_settings };
    let copy = |settings: &Settings| Ok(make(&config, &corpus, &tokenizer, settings)?.0);
    let outcome = replicas::fit(&lead, &copy, &replicas, &mut |report| progress.show(&report));
    progress.finish();
    let outcome = outcome?;
    let (memory, pool) = (watch.peak(), pool.as_ref().map(Pool::grown));
    fitting::plots(&run, PLOTS)?;
    if !outcome.finished {
        let line = fitting::resume_line(args, "pretrain", &run);
        settings.talk.say(format!("saved step {}; go on with: {line}", outcome.step));
        return Ok(ExitCode::FAILURE);
    }
    write(&config.out, &tokenizer, &objective, &outcome.parameters)?;
    let (disk, checkpoints) = (estimate::folder_bytes(run.path()), run.steps()?.len() as u64);
    let (spent, corrected, whole) = (outcome.spent, progress.corrected(), args.resume.is_none());
    plan.close(&Took { memory, pool, disk, checkpoints, spent, corrected, whole }, run.path(), settings)?;
    settings.talk.say(format!("wrote {}", config.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The config, as far as it can be checked before anything is read.
fn checked(args: &Fit) -> Result<PretrainConfig, Failure> {
    let config = config::load::<PretrainConfig>(&args.config, &args.overrides)?.resolved();
    config.check().map_err(|errors| {
        let failure = Failure::settings(&errors);
        let kinds: Vec<&str> = synth::kinds().map(|kind| kind.name).collect();
        let of_kinds = errors.iter().any(|error| error.key == "finish.kinds");
        if of_kinds { failure.hint(format!("kinds: {}", kinds.join(" "))) } else { failure }
    })?;
    fitting::check_resume(args.resume.as_deref())?;
    Ok(config)
}

/// Writes the model with its tokenizer.
fn write(out: &Path, tokenizer: &Path, objective: &Pretraining, parameters: &[Parameter]) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|e| Failure::run(format!("{}: {e}", out.display())))?;
    let ids = Text::load(tokenizer)?.special_ids();
    let tokens = [ids.bos.unwrap_or(0), ids.eos.unwrap_or(1)];
    pretrain::write_model(out, objective.shape(), parameters, tokens).map_err(fitting::failure)?;
    copy_tokenizer(tokenizer, out)
}

/// Copies the files of a tokenizer from one model's folder to another's.
///
/// # Errors
/// When one cannot be read or written.
pub fn copy_tokenizer(from: &Path, out: &Path) -> Result<(), Failure> {
    for name in TOKENIZER_FILES {
        let from = from.join(name);
        if from.is_file() {
            fitting::copy(&from, &out.join(name))?;
        }
    }
    Ok(())
}

/// The files of a tokenizer, as far as there are.
const TOKENIZER_FILES: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];

const PLOTS: &[(&str, &str, &str, &[&str])] = &[
    ("loss.svg", "Loss of answers", "nats per token", &["answer_loss", "evaluation/answer_loss"]),
    ("accuracy.svg", "Answers' tokens predicted", "share", &["answer_top1", "evaluation/answer_top1"]),
];

/// The folder of the tokenizer: trained once, then taken from the run.
fn tokenizer(config: &PretrainConfig, corpus: &Corpus, run: &Path, settings: &Settings) -> Result<PathBuf, Failure> {
    if let Some(from) = &config.tokenizer.from {
        return Ok(from.clone());
    }
    let dir = run.join("tokenizer");
    // Written last.
    if dir.join("config.json").is_file() {
        return Ok(dir);
    }
    settings.talk.say(format!("training a tokenizer of {} tokens", config.tokenizer.size));
    std::fs::create_dir_all(&dir).map_err(|e| Failure::run(format!("{}: {e}", dir.display())))?;
    vocabulary::train(corpus.texts(config.tokenizer.conversations), config.tokenizer.size, &dir).map_err(|error| {
        Failure::input(format!("tokenizer.size: {error}")).hint("ask for fewer tokens, or give it more text")
    })?;
    // A renderer reads a model's folder, and there is no model yet.
    let shape = config.model.with_vocabulary(config.tokenizer.size)?;
    pretrain::write_config(&dir, &shape, [0, 1]).map_err(fitting::failure)?;
    Ok(dir)
}

fn prepare(
    config: &PretrainConfig,
    corpus: &Corpus,
    tokenizer: &Path,
    settings: &Settings,
) -> Result<Prepared, Failure> {
    let (mut objective, fit) = make(config, corpus, tokenizer, settings)?;
    let (watch, pool) = (Watch::start(), Pool::of(&settings.compute()?));
    let mut plan = plan(&mut objective, &fit, settings, config.training.gradient_accumulation, pool.as_ref())?;
    plan.before = watch.before();
    // The dry-run steps are no part of what the run takes.
    watch.forget_peak();
    pool.iter().for_each(Pool::shrink);
    Ok(Prepared { objective, fit, plan, watch, pool })
}

/// What is fitted on the device of `settings`, and how.
fn make(
    config: &PretrainConfig,
    corpus: &Corpus,
    tokenizer: &Path,
    settings: &Settings,
) -> Result<(Pretraining, FitSettings), Failure> {
    let compute = settings.compute()?;
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
    let all = || examples.iter().chain(finish.iter().flat_map(|finish| &finish.examples));
    let labels: usize = all().map(Example::labels).sum();
    let teaches = |examples: &[Example]| examples.iter().any(|example| example.labels() > 0);
    if !teaches(&examples) || finish.as_ref().is_some_and(|finish| !teaches(&finish.examples)) {
        return Err(Failure::input("no token of the data is the assistant's: there is nothing to learn from"));
    }
    let shape = config.model.with_vocabulary(vocab_size)?;
    let llama = Llama::new(shape, compute.device().clone());
    let parameters: usize = llama.sizes().iter().sum();
    settings.talk.say(format!(
        "{} conversations, {} tokens, {} of them answers; {} parameters ({} as f16); {} steps",
        count(all().count() as u128),
        count(all().map(|example| example.ids.len() as u128).sum()),
        count(labels as u128),
        count(parameters as u128),
        bytes(2 * parameters as u64),
        fit_settings.schedule.steps
    ));
    let mut objective = Pretraining::new(llama, shape, examples, held_out, packing, config.data.prompt_weight);
    if let Some(Finishing { packing, examples, .. }) = finish {
        objective = objective.finishing(last_part, examples, packing);
    }
    Ok((objective, fit_settings))
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

/// What is to be fitted, how, and what it will take.
struct Prepared {
    objective: Pretraining,
    fit: FitSettings,
    plan: Plan,
    watch: Watch,
    pool: Option<Pool>,
}

/// Memory and time estimated from a few discarded steps, disk by formula.
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
    let found = Fitting::measure(objective, fit, objective.one_pass(fit.schedule.steps), pool);
    *objective.held_out_mut() = all;
    let found = found?;
    let found = found.divided(parameters, settings, at_once);
    let (memory, seconds, pool) = (found.memory, found.seconds, pool.map(Pool::grown));
    settings.talk.say(format!(
        "{} {}; {}; about {} for training, evaluations apart",
        if pool.is_some() { "device memory" } else { "memory beside the conversations" },
        bytes(pool.unwrap_or(memory)),
        disk.words(),
        fitting::duration(seconds)
    ));
    Ok(Plan { memory, before: None, memory_by_formula: found.by_formula, pool, disk, seconds: Some(seconds) })
}
