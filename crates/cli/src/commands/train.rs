//! `gorgon train`: draft heads on a frozen backbone.

use crate::args::Fit;
use crate::commands::load;
use crate::config;
use crate::error::Failure;
use crate::fitting::{self, Progress};
use crate::printer::{bytes, count};
use crate::settings::Settings;
use gorgon_core::accept::draws::Seeded;
use gorgon_data::pack::Packing;
use gorgon_data::shard::{self, Row};
use gorgon_draft::medusa::Heads;
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::{hash_file, hash_folder_weights};
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::table::{Column, Table};
use gorgon_train::config::TrainConfig;
use gorgon_train::heads::{self, FeatureCache, Features, HeadFitting, positions};
use gorgon_train::trainer::{FitSettings, Objective, fit};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The folder of the finished heads in a run folder.
const HEADS: &str = "heads";
/// Cached hidden states in a run folder.
const FEATURES: &str = "features.f32";

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: TrainConfig = config::load(&args.config, &args.overrides)?;
    match execute(&config, args.resume.as_deref(), args.dry_run, settings)? {
        Done::Planned => Ok(ExitCode::SUCCESS),
        Done::Finished(run) => {
            report(&run, config.medusa.heads, settings)?;
            Ok(ExitCode::SUCCESS)
        }
        Done::Stopped { run, step } => {
            let line = fitting::resume_line(args, "train", &run);
            settings.talk.say(format!("saved step {step}; go on with: {line}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// How far a training came.
pub enum Done {
    /// It was only planned.
    Planned,
    /// All steps are done; the heads are in the run folder.
    Finished(RunDir),
    /// It was asked to stop after this step.
    Stopped {
        /// The run folder.
        run: RunDir,
        /// Steps done.
        step: u64,
    },
}

/// Does what a config says.
///
/// # Errors
/// When the config, the data or the model are wrong, a loss is no number, or the run folder cannot be written.
pub fn execute(
    config: &TrainConfig,
    resume: Option<&Path>,
    dry_run: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    config.check().map_err(fitting::failure)?;
    fitting::check_resume(resume)?;
    let dir = load::folder(&config.model, settings)?;
    let data = Data::load(config, &dir, settings)?;
    let before = data.backbone_hash.clone();
    let mut job = prepare(config, &dir, data, settings)?;
    say_plan(&job, config, settings)?;
    if dry_run {
        return Ok(Done::Planned);
    }
    let stem = format!("{}-{}", config.method.name(), fitting::stem(&dir));
    let inputs = shard::files(&config.data)?;
    let run = fitting::run_folder(&config.runs, &stem, resume, config, &inputs, settings)?;
    settings.talk.say(format!("run folder {}", run.path().display()));
    if config.cache_features {
        cache(&mut job.objective, &run, settings)?;
    }
    let stop = fitting::stop_flag()?;
    let progress = Progress::new(&run, &job.fit, settings);
    let outcome = fit(&job.objective, &run, &job.fit, &stop, &mut |report| progress.show(&report));
    progress.finish();
    let outcome = outcome.map_err(fitting::failure)?;
    if backbone_hash(&dir)? != before {
        return Err(Failure::run(format!("{}: the backbone's files changed while it was in use", dir.display())));
    }
    fitting::plots(&run, PLOTS)?;
    if !outcome.finished {
        return Ok(Done::Stopped { run, step: outcome.step });
    }
    copy_best(&run)?;
    Ok(Done::Finished(run))
}

const PLOTS: &[(&str, &str, &str, &[&str])] = &[
    ("loss.svg", "Loss", "weighted nats", &["loss", "evaluation/loss"]),
    ("top1.svg", "First guesses that are right", "share", &["evaluation/top1"]),
    ("top5.svg", "Right tokens among the first five guesses", "share", &["evaluation/top5"]),
    (
        "length.svg",
        "Acceptance length on held-out text",
        "tokens per step",
        &["evaluation/length_chain", "evaluation/length_tree", "evaluation/tau"],
    ),
];

/// The conversations.
struct Data {
    rows: Vec<Row>,
    held_out: Vec<Row>,
    backbone_hash: String,
}

impl Data {
    fn load(config: &TrainConfig, dir: &Path, settings: &Settings) -> Result<Self, Failure> {
        let model = ModelConfig::read(dir)?;
        let backbone_hash = backbone_hash(dir)?;
        let read = |folder: &Path| read_folder(folder, dir, &model, &backbone_hash, settings);
        let mut rows = read(&config.data)?;
        let longest = config.training.max_tokens;
        let mut held_out = match &config.eval_data {
            Some(folder) => read(folder)?,
            None => {
                // A conversation's part depends on its number alone, so that more data does not reshuffle the parts.
                let is_held = |row: &Row| Seeded::stream(config.seed, row.row).uniform() < config.held_out;
                let (held, kept) = rows.into_iter().partition(is_held);
                rows = kept;
                held
            }
        };
        held_out.truncate(config.eval_conversations);
        for row in rows.iter_mut().chain(&mut held_out) {
            row.example.truncate(longest);
        }
        if rows.iter().all(|row| positions(&row.example, config.medusa.heads).is_empty()) {
            let message = format!("{}: no position has a label for any head", config.data.display());
            return Err(Failure::input(message).hint("training.max_tokens may cut all answers off"));
        }
        Ok(Self { rows, held_out, backbone_hash })
    }
}

/// All rows of a folder of shards, checked against the backbone.
fn read_folder(
    folder: &Path,
    dir: &Path,
    model: &ModelConfig,
    backbone_hash: &str,
    settings: &Settings,
) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![];
    let tokenizer = dir.join("tokenizer.json");
    let tokenizer_hash = tokenizer.is_file().then(|| hash_file(&tokenizer)).transpose()?;
    let mut other_model = false;
    for path in shard::files(folder)? {
        let (part, metadata) = shard::read(&path, model.vocab_size)?;
        let of = |key: &str| metadata.get(&format!("gorgon.{key}"));
        if let (Some(theirs), Some(ours)) = (of("tokenizer_sha256"), &tokenizer_hash)
            && theirs != ours
        {
            let message = format!("{}: its ids were made with another tokenizer", path.display());
            return Err(Failure::input(message).hint("distil again with this model"));
        }
        other_model |= of("model_sha256").is_some_and(|hash| hash != backbone_hash);
        rows.extend(part);
    }
    if let Some(row) = rows.iter().find(|row| row.example.labels() == 0) {
        let message = format!("{}: row {} ({}): its loss mask is empty", folder.display(), row.row, row.id);
        return Err(Failure::input(message));
    }
    if other_model {
        let folder = folder.display();
        settings.talk.say(format!("note: {folder} was made with other weights than this backbone's"));
    }
    Ok(rows)
}

fn backbone_hash(dir: &Path) -> Result<String, Failure> {
    let checkpoint = Checkpoint::open(dir)?;
    let files: Vec<PathBuf> = checkpoint.files().map(Path::to_path_buf).collect();
    Ok(hash_folder_weights(&files)?)
}

struct Job {
    objective: HeadFitting,
    fit: FitSettings,
}

fn prepare(config: &TrainConfig, dir: &Path, data: Data, settings: &Settings) -> Result<Job, Failure> {
    let longest = data.rows.iter().chain(&data.held_out).map(|row| row.example.ids.len()).max().unwrap_or(0);
    let decoder = load::decoder(dir, longest, settings)?;
    let model = decoder.config().clone();
    let checkpoint = Checkpoint::open(dir)?;
    let lm_head = heads::lm_head(&checkpoint, &model, decoder.compute().device()).map_err(fitting::failure)?;
    let heads = Heads {
        config: config.medusa,
        hidden_size: model.hidden_size,
        vocab_size: model.vocab_size,
        chunk_rows: config.chunk_rows.max(1),
    };
    let training = &config.training;
    let lengths = data.rows.iter().map(|row| row.example.ids.len()).collect();
    let packing = Packing::new(lengths, training.batch_tokens, training.batches_per_step, config.seed);
    let fit = training.settings(packing.steps_per_epoch(), config.seed).map_err(fitting::failure)?;
    let features = Features { decoder, cache: None };
    let objective = HeadFitting {
        heads,
        lm_head,
        features,
        rows: data.rows,
        held_out: data.held_out,
        packing,
        base: config.model.clone(),
        decoded_prompts: config.eval_decoded_prompts,
        decoded_tokens: config.eval_decoded_tokens,
    };
    Ok(Job { objective, fit })
}

/// What the job will take: positions, memory, disk, and time as one micro-batch takes it.
fn say_plan(job: &Job, config: &TrainConfig, settings: &Settings) -> Result<(), Failure> {
    let objective = &job.objective;
    let heads = objective.heads.config.heads;
    let count_in = |rows: &[Row]| rows.iter().map(|row| positions(&row.example, heads).len()).sum::<usize>();
    let (fitted, measured) = (count_in(&objective.rows), count_in(&objective.held_out));
    let parameters: usize = objective.parameters(0).iter().map(gorgon_train::parameters::Parameter::len).sum();
    settings.talk.say(format!(
        "{} conversations, {} tokens, {} positions with labels; {} held-out conversations with {} positions",
        count(objective.rows.len() as u128),
        count(objective.packing.tokens() as u128),
        count(fitted as u128),
        count(objective.held_out.len() as u128),
        count(measured as u128)
    ));
    let d = objective.heads.hidden_size;
    let logits = config.chunk_rows.min(config.training.batch_tokens) * objective.heads.vocab_size * 4 * 2;
    let states = config.training.batch_tokens * d * 4 * (3 + 6 * objective.heads.config.blocks);
    let at_work = config.training.batches_per_step.min(rayon::current_num_threads());
    // Weights, two moments, the gradients of each micro-batch at work and their sum.
    let fitted_bytes = parameters * 4 * (4 + at_work);
    let memory = fitted_bytes + at_work * (logits + states) + objective.heads.vocab_size * d * 4;
    let disk = 3 * 3 * parameters * 4;
    let features = if config.cache_features { FeatureCache::bytes(fitted + measured, d) } else { 0 };
    settings.talk.say(format!(
        "{heads} heads, {} parameters; {} steps; memory beside the backbone {}; disk {}{}",
        count(parameters as u128),
        job.fit.schedule.steps,
        bytes(memory as u64),
        bytes(disk as u64 + features),
        if features > 0 { format!(", {} of it hidden states", bytes(features)) } else { String::new() }
    ));
    let (reading, fitting_them) = time_a_step(job)?;
    let steps = job.fit.schedule.steps as f64;
    // Cached states are computed once, whatever the number of passes.
    let readings = if config.cache_features { steps.min(objective.packing.steps_per_epoch() as f64) } else { steps };
    settings.talk.say(format!(
        "about {} for training, evaluations apart (a step reads {reading:.2} s and fits {fitting_them:.2} s here)",
        fitting::duration(reading * readings + fitting_them * steps)
    ));
    Ok(())
}

/// Seconds of a step: for the backbone's states, and for the heads' gradients. The first of two is a warm-up.
fn time_a_step(job: &Job) -> Result<(f64, f64), Failure> {
    use rayon::prelude::*;
    let objective = &job.objective;
    let weights: Vec<_> = objective.parameters(0).into_iter().map(|p| p.value).collect();
    let batches = objective.batches(0).map_err(fitting::failure)?;
    let totals = vec![1.0; objective.heads.config.heads];
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

/// Computes all hidden states once.
fn cache(objective: &mut HeadFitting, run: &RunDir, settings: &Settings) -> Result<(), Failure> {
    let heads = objective.heads.config.heads;
    let of = |row: &Row| positions(&row.example, heads);
    let rows = [objective.rows.as_slice(), objective.held_out.as_slice()];
    let total: usize = rows.iter().flat_map(|rows| rows.iter()).map(|row| of(row).len()).sum();
    let bar = crate::progress::count(settings.progress, "hidden states", total as u64);
    let path = run.path().join(FEATURES);
    let cache = FeatureCache::build(&path, &objective.features, rows, of, &mut |n| bar.inc(n as u64));
    bar.finish_and_clear();
    objective.features.cache = Some(cache.map_err(fitting::failure)?);
    Ok(())
}

/// The checkpoint that did best on held-out text, or the last one.
fn best(run: &RunDir) -> Result<u64, Failure> {
    let last = run.steps()?.last().copied().unwrap_or(0);
    Ok(run.best()?.unwrap_or(last))
}

/// Copies the best heads to where they are looked for.
fn copy_best(run: &RunDir) -> Result<(), Failure> {
    let heads = run.path().join(HEADS);
    std::fs::create_dir_all(&heads).map_err(|e| Failure::run(format!("{}: {e}", heads.display())))?;
    for name in [gorgon_train::checkpoint::MODEL_FILE, "config.json"] {
        fitting::copy(&run.step(best(run)?).join(name), &heads.join(name))?;
    }
    Ok(())
}

/// Says how good the heads are.
pub fn report(run: &RunDir, head_count: usize, settings: &Settings) -> Result<(), Failure> {
    let (best, heads) = (best(run)?, run.path().join(HEADS));
    let records = gorgon_runs::metrics::read(&run.metrics())?;
    let measured = records.iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some());
    let measured = measured.map(|record| record["evaluation"].clone()).unwrap_or_default();
    if settings.json {
        let document = json!({
            "run": run.path().display().to_string(), "heads": heads.display().to_string(),
            "step": best, "evaluation": measured,
        });
        crate::printer::document(&document.to_string());
        return Ok(());
    }
    let mut table =
        Table::new([Column::number("head"), Column::number("loss"), Column::number("top-1"), Column::number("top-5")]);
    let of = |key: &str, head: usize| {
        let number = measured.get(key).and_then(|list| list.get(head)).and_then(Value::as_f64);
        number.map_or_else(|| "-".into(), |x| format!("{x:.3}"))
    };
    for head in 0..head_count {
        table.row([(head + 1).to_string(), of("head_loss", head), of("top1", head), of("top5", head)]);
    }
    crate::printer::piece(&table.to_text());
    let number = |key: &str| measured.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    crate::printer::line(&format!(
        "expected tokens per step on held-out text: {:.2} with a chain, {:.2} with the tree mc_sim_7b_63",
        number("length_chain"),
        number("length_tree")
    ));
    if let Some(tau) = measured.get("tau").and_then(Value::as_f64) {
        crate::printer::line(&format!("tokens per step when decoding held-out prompts with that tree: {tau:.2}"));
    }
    settings.talk.say(format!("best step {best}; heads in {}", heads.display()));
    Ok(())
}
