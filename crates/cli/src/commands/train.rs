//! `gorgon train`: draft heads on a frozen backbone, or a draft model beside one.

mod backbone;
mod features;
mod job;
mod parity;
mod report;
mod together;

pub use self::report::report;

use self::backbone::{Backbone, backbone_hash};
use self::features::StatesPlan;
use self::job::Job;
use crate::args::{Features, Fit};
use crate::commands::drafting::FITTED_MODEL;
use crate::commands::load;
use crate::commands::pretrain::copy_tokenizer;
use crate::config;
use crate::error::Failure;
use crate::estimate::{self, Plan, Pool, Took, Watch};
use crate::fitting::{self, Progress};
use crate::printer::bytes;
use crate::settings::Settings;
use gorgon_data::shard;
use gorgon_draft::hydra::{HydraHeads, HydraShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::Heads;
use gorgon_draft::mtp::{MtpHeads, MtpShape};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{HeadMethod, TrainConfig};
use gorgon_train::methods::OnBackbone;
use gorgon_train::process_group::ProcessGroup;
use gorgon_train::trainer::Outcome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The folder of the finished heads in a run folder.
const HEADS: &str = "heads";

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: TrainConfig = config::load(&args.config, &args.overrides)?;
    match execute(&config, args.resume.as_deref(), args.dry_run, settings)? {
        Done::Planned | Done::Kept { .. } => Ok(ExitCode::SUCCESS),
        Done::Finished(run) => {
            report(&run, settings)?;
            Ok(ExitCode::SUCCESS)
        }
        Done::Stopped { run, step } => {
            let line = fitting::resume_line(args, "train", &run);
            settings.talk.say(format!("saved step {step}; go on with: {line}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `gorgon features`: the hidden states that a training will read, computed ahead.
///
/// # Errors
/// As [`execute`].
pub fn features(args: &Features, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: TrainConfig = config::load(&args.config, &args.overrides)?;
    let done = launch(&config, None, args.dry_run, true, settings)?;
    if let Done::Kept { folder, plan } = done {
        if settings.json {
            let document = json!({"features": folder.display().to_string(), "plan": plan});
            crate::printer::document(&document.to_string());
        }
        let hint = if config.caches_features() { "" } else { "; train with cache_features=true to use them" };
        settings.talk.say(format!("states in {}{hint}", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// How far a training came.
pub enum Done {
    /// It was only planned.
    Planned,
    /// Hidden states are kept; nothing was fitted.
    Kept {
        /// Where they are.
        folder: PathBuf,
        /// What was planned beside what it took.
        plan: Value,
    },
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
    launch(config, resume, dry_run, false, settings)
}

fn launch(
    config: &TrainConfig,
    resume: Option<&Path>,
    dry_run: bool,
    only_features: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    let config = &config.clone().resolved();
    config.check().map_err(|errors| Failure::settings(&errors))?;
    fitting::check_resume(resume)?;
    if !dry_run && !only_features {
        load::check_writable(resume.unwrap_or(&config.runs))?;
    }
    let replicas = &settings.divided();
    let settings = &replicas[0];
    let dir = load::folder(&config.model, settings)?;
    let backbone = Backbone::load(config, &dir, settings)?;
    let (before, watch, pool) = (backbone.hash.clone(), Watch::start(), Pool::of(&settings.compute()?));
    let launch = Launch { config, dir: &dir, before, resume, dry_run, only_features, watch, pool, settings, replicas };
    let chunk_rows = config.chunk_rows.max(1);
    match config.method {
        HeadMethod::Medusa => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, _| Heads {
                config: config.medusa,
                hidden_size: model.hidden_size,
                vocab_size: model.vocab_size,
                chunk_rows,
            })
        }),
        HeadMethod::MedusaTwo => launch.fit(backbone, |backbone| backbone.medusa_two(config)),
        HeadMethod::Eagle => launch.fit(backbone, |backbone| backbone.eagle(config)),
        HeadMethod::Eagle3 => launch.fit(backbone, |backbone| backbone.eagle3(config)),
        HeadMethod::Hydra => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = HydraShape { config: config.hydra, layer: LayerShape::of(model) };
                HydraHeads::new(shape, longest, chunk_rows)
            })
        }),
        HeadMethod::Mtp => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = MtpShape { config: config.mtp, layer: LayerShape::of(model), first_layer: model.layers };
                MtpHeads::new(shape, longest, chunk_rows)
            })
        }),
        HeadMethod::DistillSpec => launch.fit(backbone, |backbone| backbone.distill_spec(config, &dir)),
    }
}

/// A job that is about to begin.
struct Launch<'a> {
    config: &'a TrainConfig,
    dir: &'a Path,
    /// Hash of the backbone's files.
    before: String,
    resume: Option<&'a Path>,
    dry_run: bool,
    /// Whether to keep hidden states and fit nothing.
    only_features: bool,
    /// Memory since the backbone was loaded.
    watch: Watch,
    /// The same on a GPU.
    pool: Option<Pool>,
    settings: &'a Settings,
    /// Those of every device that fits along, the first one's first.
    replicas: &'a [Settings],
}

impl Launch<'_> {
    /// `make` makes a job of a backbone, on whatever device that is.
    fn fit<F: OnBackbone>(
        &self,
        backbone: Backbone,
        make: impl Fn(Backbone) -> Result<Job<F>, Failure> + Sync,
    ) -> Result<Done, Failure> {
        let Self { config, dir, resume, settings, .. } = *self;
        let mut job = make(backbone)?;
        job.check(config, settings)?;
        if self.only_features {
            return self.keep_features(&mut job);
        }
        let plan = job.plan(config, settings, (&self.watch, self.pool.as_ref()))?;
        if self.dry_run {
            return Ok(Done::Planned);
        }
        // The dry-run steps are no part of what the run takes.
        self.watch.forget_peak();
        self.pool.iter().for_each(Pool::shrink);
        let stem = format!("{}-{}", config.method.name(), fitting::stem(dir));
        let inputs = shard::files(&config.data)?;
        let group = ProcessGroup::current();
        if group.is_root() && config.caches_features() {
            job.cache(&job.cache_request(config, &self.before), true, settings)?;
        }
        group.barrier();
        if !group.is_root() {
            return self.assist(job, &make);
        }
        let run = fitting::run_folder(&config.runs, &stem, resume, config, &inputs, settings)?;
        settings.talk.say(format!("run folder {}", run.path().display()));
        job.objective.attach(run.path());
        let progress = Progress::new(&run, &job.fit, settings);
        let outcome = self.fit_on_all(&job, &run, Some(run.path()), &make, &mut |report| progress.show(&report));
        progress.finish();
        let outcome = outcome?;
        let took = Took {
            memory: self.watch.peak(),
            pool: self.pool.as_ref().map(Pool::grown),
            corrected: progress.corrected(),
            whole: resume.is_none(),
            ..Took::default()
        };
        self.finish(&job, run, &outcome, (&plan, took))
    }

    /// Publishes what was fitted, sees whether it is what will be served, and says what it took.
    fn finish<F: OnBackbone>(
        &self,
        job: &Job<F>,
        run: RunDir,
        outcome: &Outcome,
        (plan, took): (&Plan, Took),
    ) -> Result<Done, Failure> {
        let Self { config, dir, settings, .. } = *self;
        if backbone_hash(dir)? != self.before {
            return Err(Failure::run(format!("{}: the backbone's files changed while it was in use", dir.display())));
        }
        fitting::plots(&run, PLOTS)?;
        if !outcome.finished {
            return Ok(Done::Stopped { run, step: outcome.step });
        }
        job.objective.publish(&run.step(best(&run)?), run.path()).map_err(fitting::failure)?;
        if config.method == HeadMethod::DistillSpec {
            copy_tokenizer(&config.distill_spec.draft, &run.path().join(FITTED_MODEL))?;
        }
        parity::check(&job.objective, &run, best(&run)?, &fitted(&run), settings)?;
        let (disk, checkpoints) = (estimate::folder_bytes(run.path()), run.steps()?.len() as u64);
        plan.close(&Took { disk, checkpoints, spent: outcome.spent, ..took }, run.path(), settings)?;
        Ok(Done::Finished(run))
    }
}

impl Launch<'_> {
    /// Computes hidden states ahead and says where they are.
    fn keep_features<F: OnBackbone>(&self, job: &mut Job<F>) -> Result<Done, Failure> {
        let Self { config, settings, .. } = *self;
        let request = job.cache_request(config, &self.before);
        let loaded = self.watch.grown();
        let StatesPlan { disk: size, work } = job.say_features(&request, config, settings)?;
        if self.dry_run {
            return Ok(Done::Planned);
        }
        self.watch.forget_peak();
        self.pool.iter().for_each(Pool::shrink);
        let started = Instant::now();
        job.cache(&request, true, settings)?;
        let (disk, took) = (estimate::folder_bytes(&request.folder), started.elapsed().as_secs_f64());
        let mut said = format!("planned / measured: disk {} / {}", bytes(size), bytes(disk));
        if let Some((seconds, _)) = work {
            said.push_str(&format!("; time {} / {}", fitting::duration(seconds), fitting::duration(took)));
        }
        let memory = work.and_then(|(_, memory)| Some((memory? + loaded?, self.watch.peak()?)));
        if let Some((planned, peak)) = memory {
            said.push_str(&format!("; memory {} / {}", bytes(planned), bytes(peak)));
        }
        settings.talk.say(said);
        let before = self.watch.before().unwrap_or(0);
        let beyond = |bytes: u64| memory.map(|(a, b)| estimate::pair((a + bytes) as f64, Some((b + bytes) as f64)));
        let plan = json!({
            "memory_bytes": beyond(0),
            "peak_rss_bytes": beyond(before),
            "disk_bytes": estimate::pair(size as f64, Some(disk as f64)),
            "seconds": work.map(|(seconds, _)| estimate::pair(seconds, Some(took))),
        });
        Ok(Done::Kept { folder: request.folder, plan })
    }
}

const PLOTS: &[(&str, &str, &str, &[&str])] = &[
    ("loss.svg", "Loss", "weighted nats", &["loss", "evaluation/loss"]),
    ("top1.svg", "First guesses that are right", "share", &["evaluation/top1"]),
    ("top5.svg", "Right tokens among the first five guesses", "share", &["evaluation/top5"]),
    ("acceptance.svg", "Drafts that sampling accepts", "share", &["acceptance", "evaluation/acceptance"]),
    (
        "length.svg",
        "Acceptance length on held-out text",
        "tokens per step",
        &["evaluation/length_chain", "evaluation/length_tree", "evaluation/tau"],
    ),
];

/// The checkpoint that did best on held-out text, or the last one.
fn best(run: &RunDir) -> Result<u64, Failure> {
    let last = run.steps()?.last().copied().unwrap_or(0);
    Ok(run.best()?.unwrap_or(last))
}

/// The folder of what was fitted: draft heads, or a draft model.
fn fitted(run: &RunDir) -> PathBuf {
    let model = run.path().join(FITTED_MODEL);
    if model.is_dir() { model } else { run.path().join(HEADS) }
}
