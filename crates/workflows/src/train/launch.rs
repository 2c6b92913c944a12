//! A training from its plan to its published heads.

use super::backbone::Backbone;
use super::features::StatesPlan;
use super::job::Job;
use super::parity;
use super::published;
use crate::config::Resume;
use crate::estimate::{self, Measured, Plan, Pool, Watch};
use crate::failure::Failure;
use crate::files;
use crate::fitting::{self, FITTED_MODEL, Fitted, Inputs, Plot, Progress, Results};
use crate::hub_id;
use crate::settings::Settings;
use crate::units::{bytes, duration};
use gorgon_data::manifest::IDENTITY;
use gorgon_runs::provenance::ConfigChange;
use gorgon_runs::run_dir::{RunDir, RunView};
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::methods::OnBackbone;
use gorgon_train::parameters::Parameter;
use gorgon_train::process_group::ProcessGroup;
use gorgon_train::trainer::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How far a training came.
pub enum Done {
    /// It was only planned; the plan as a document.
    Planned(Value),
    /// Hidden states are kept; nothing was fitted.
    Kept {
        /// Where they are.
        folder: PathBuf,
        /// The plan, and what was measured.
        plan: Value,
    },
    /// All steps are done; the heads are in the run folder.
    Finished(RunDir),
    /// It stopped on request after this step.
    Stopped {
        /// The run folder.
        run: RunDir,
        /// Steps done.
        step: u64,
    },
}

/// A job that is about to begin.
pub(super) struct Launch<'a> {
    pub(super) config: &'a TrainConfig,
    pub(super) dir: &'a Path,
    /// Hash of the backbone's files.
    pub(super) before: String,
    /// The run to resume, and the keys of its config that change.
    pub(super) resume: Option<(Resume<'a>, &'a [ConfigChange])>,
    pub(super) dry_run: bool,
    /// Whether to keep hidden states and fit nothing.
    pub(super) only_features: bool,
    /// Memory since the backbone was loaded.
    pub(super) watch: Watch,
    /// Pool of a GPU.
    pub(super) pool: Option<Pool>,
    pub(super) settings: &'a Settings,
    /// Those of every device that fits along, the first one's first.
    pub(super) replicas: &'a [Settings],
}

impl Launch<'_> {
    /// `make` makes a job of a backbone, on whatever device that is.
    pub(super) fn fit<F: OnBackbone>(
        &self,
        backbone: Backbone,
        make: impl Fn(Backbone) -> Result<Job<F>, Failure> + Sync,
    ) -> Result<Done, Failure> {
        let Self { config, dir, resume, settings, .. } = *self;
        let mut job = make(backbone)?;
        let replaced = published::place(config)?;
        job.check(config, settings)?;
        if self.only_features {
            return self.keep_features(&mut job);
        }
        let inputs = self.inputs(job.inputs(config), replaced)?;
        let mut done = 0;
        if let Some((resume, _)) = resume {
            let run = RunView::open(resume.run)?;
            inputs.check(&run)?;
            done = run.steps()?.last().copied().unwrap_or(0);
        }
        let plan = job.plan(config, settings, (&self.watch, self.pool.as_ref()), done)?;
        if self.dry_run {
            return self.planned(&plan, job.fit.schedule.steps);
        }
        // The discarded steps are no part of what the run takes.
        self.watch.forget_peak();
        self.pool.iter().for_each(Pool::shrink);
        let stem = format!("{}-{}", config.method.name(), hub_id::stem(&config.model, dir));
        let group = ProcessGroup::current();
        if group.is_root() && config.caches_features() {
            job.cache(&job.cache_request(config, &self.before), true, settings)?;
        }
        group.barrier();
        if !group.is_root() {
            return self.assist(job, &make);
        }
        let run = fitting::run_folder((&config.runs, &stem), resume, config, &inputs, settings)?;
        settings.console.say(format!("run folder {}", run.path().display()));
        job.objective.attach(run.path());
        let (outcome, measured) = self.fit_in(&job, &run, &make)?;
        self.finish(&job, run, &outcome, (&plan, measured))
    }

    /// The files that go into the run. Shards of a distillation stay as they are; a log of `--learn` grows.
    fn inputs(&self, shards: Vec<PathBuf>, replaced: Option<PathBuf>) -> Result<Inputs, Failure> {
        let name = |file: &str| format!("{}/{file}", self.config.model);
        let described = files::description_hashes(self.dir)?;
        let mut hashes: BTreeMap<String, String> =
            described.into_iter().map(|(file, hash)| (name(&file), hash)).collect();
        hashes.insert(format!("{} weights", self.config.model), self.before.clone());
        let changing = replaced.into_iter().collect();
        Ok(match self.config.data.join(IDENTITY).is_file() {
            true => Inputs { fixed: shards, changing, hashes },
            false => Inputs { fixed: vec![], changing: [shards, changing].concat(), hashes },
        })
    }

    /// The plan as a document, with what resuming would do.
    fn planned(&self, plan: &Plan, steps: u64) -> Result<Done, Failure> {
        let mut document = plan.document();
        document["method"] = self.config.method.name().into();
        document["steps"] = steps.into();
        if let Some((resume, changes)) = self.resume {
            document["resume"] = fitting::report_resume(resume.run, steps, changes, self.settings)?;
        }
        Ok(Done::Planned(document))
    }

    /// Fits on all devices, into a run folder.
    fn fit_in<F: OnBackbone>(
        &self,
        job: &Job<F>,
        run: &RunDir,
        make: &(impl Fn(Backbone) -> Result<Job<F>, Failure> + Sync),
    ) -> Result<(Outcome, Measured), Failure> {
        let progress = Progress::new(run, &job.fit, self.settings);
        let outcome = self.fit_on_all(job, run, Some(run.path()), make, &mut |report| progress.show(&report));
        progress.finish();
        let outcome = outcome?;
        let measured = Measured {
            memory: self.watch.peak(),
            pool: self.pool.as_ref().map(Pool::grown),
            corrected: progress.corrected(),
            whole: self.resume.is_none(),
            ..Measured::default()
        };
        Ok((outcome, measured))
    }

    /// Publishes what was fitted, checks that it is what will be served, and reports what it took.
    fn finish<F: OnBackbone>(
        &self,
        job: &Job<F>,
        run: RunDir,
        outcome: &Outcome,
        (plan, measured): (&Plan, Measured),
    ) -> Result<Done, Failure> {
        let Self { config, dir, settings, .. } = *self;
        if files::weights_hash(dir)? != self.before {
            return Err(Failure::run(format!("{}: the backbone's files changed while it was in use", dir.display())));
        }
        fitting::draw(&run, PLOTS)?;
        if !outcome.finished {
            return Ok(Done::Stopped { run, step: outcome.step });
        }
        let best = best(&run)?;
        job.objective.publish(&run.step(best), run.path()).map_err(Failure::training)?;
        match &config.method {
            MethodConfig::DistillSpec { distill_spec } => {
                files::copy_tokenizer(&distill_spec.draft, &run.path().join(FITTED_MODEL))?;
            }
            MethodConfig::LayerSkip { .. } => files::copy_tokenizer(dir, &run.path().join(FITTED_MODEL))?,
            _ => {}
        }
        parity::check(&job.objective, &run, best, &fitted(&run), settings)?;
        if let Some(place) = published::place(config)? {
            published::replace(&place, (&run, best), &job.objective, settings)?;
        }
        let (disk, checkpoints) = (files::folder_bytes(run.path()), run.steps()?.len() as u64);
        let plan = plan.close(&Measured { disk, checkpoints, spent: outcome.spent, ..measured }, settings);
        let parameters = outcome.parameters.iter().map(Parameter::len).sum();
        let fitted = Fitted { method: config.method.name(), model: &config.model, parameters };
        Results::read(&run, &fitted, plan)?.write(&run)?;
        Ok(Done::Finished(run))
    }
}

impl Launch<'_> {
    /// Computes hidden states ahead and reports where they are.
    fn keep_features<F: OnBackbone>(&self, job: &mut Job<F>) -> Result<Done, Failure> {
        let Self { config, settings, .. } = *self;
        let request = job.cache_request(config, &self.before);
        let loaded = self.watch.grown();
        let StatesPlan { disk: size, work } = job.report_features(&request, config, settings)?;
        if self.dry_run {
            let (seconds, memory) = work.unzip();
            let document = json!({
                "features": request.folder.display().to_string(), "disk_bytes": size, "seconds": seconds,
                "memory_bytes": memory.flatten(),
            });
            return Ok(Done::Planned(document));
        }
        self.watch.forget_peak();
        self.pool.iter().for_each(Pool::shrink);
        let started = Instant::now();
        job.cache(&request, true, settings)?;
        let (disk, measured) = (files::folder_bytes(&request.folder), started.elapsed().as_secs_f64());
        let mut line = format!("planned / measured: disk {} / {}", bytes(size), bytes(disk));
        if let Some((seconds, _)) = work {
            line.push_str(&format!("; time {} / {}", duration(seconds), duration(measured)));
        }
        let memory = work.and_then(|(_, memory)| Some((memory? + loaded?, self.watch.peak()?)));
        if let Some((planned, peak)) = memory {
            line.push_str(&format!("; memory {} / {}", bytes(planned), bytes(peak)));
        }
        settings.console.say(line);
        let before = self.watch.before().unwrap_or(0);
        let beyond = |bytes: u64| memory.map(|(a, b)| estimate::pair((a + bytes) as f64, Some((b + bytes) as f64)));
        let plan = json!({
            "memory_bytes": beyond(0),
            "peak_rss_bytes": beyond(before),
            "disk_bytes": estimate::pair(size as f64, Some(disk as f64)),
            "seconds": work.map(|(seconds, _)| estimate::pair(seconds, Some(measured))),
        });
        Ok(Done::Kept { folder: request.folder, plan })
    }
}

/// The plots of a training.
pub(crate) const PLOTS: &[Plot] = &[
    Plot {
        file: "loss.svg",
        title: "Loss",
        y_label: "loss (weighted, nats per token)",
        lines: &[("loss", "training"), ("evaluation/loss", "held-out text")],
    },
    Plot {
        file: "top1.svg",
        title: "First guesses that are right on held-out text",
        y_label: "share of tokens (top-1 accuracy)",
        lines: &[("evaluation/top1", "head"), ("evaluation/step_top1", "unrolled step")],
    },
    Plot {
        file: "top5.svg",
        title: "Right tokens among the first five guesses on held-out text",
        y_label: "share of tokens (top-5 accuracy)",
        lines: &[("evaluation/top5", "head")],
    },
    Plot {
        file: "acceptance.svg",
        title: "Drafts that sampling accepts",
        y_label: "share of drafts",
        lines: &[("acceptance", "training"), ("evaluation/acceptance", "held-out text")],
    },
    Plot {
        file: "length.svg",
        title: "Tokens per step on held-out text",
        y_label: "accepted tokens per step, bonus token included",
        lines: &[
            ("evaluation/length_chain", "chain (expected)"),
            ("evaluation/length_tree", "tree mc_sim_7b_63 (expected)"),
            ("evaluation/tau", "decoded prompts (measured)"),
        ],
    },
];

/// The checkpoint that did best on held-out text, or the last one.
///
/// # Errors
/// When the run folder cannot be read.
pub fn best(run: &RunDir) -> Result<u64, Failure> {
    let last = run.steps()?.last().copied().unwrap_or(0);
    Ok(run.best()?.unwrap_or(last))
}

/// The folder of what was fitted: draft heads, a draft model, or the backbone where there are no heads.
pub fn fitted(run: &RunDir) -> PathBuf {
    fitting::fitted_folder(run.path())
}
