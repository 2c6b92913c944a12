//! `gorgon train`: draft heads on a frozen backbone.

mod backbone;
mod job;

use self::backbone::{Backbone, backbone_hash};
use self::job::Job;
use crate::args::Fit;
use crate::commands::load;
use crate::config;
use crate::error::Failure;
use crate::fitting::{self, Progress};
use crate::settings::Settings;
use gorgon_data::shard;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::table::{Column, Table};
use gorgon_train::config::{HeadMethod, TrainConfig};
use gorgon_train::heads::OnBackbone;
use gorgon_train::trainer::fit;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// The folder of the finished heads in a run folder.
const HEADS: &str = "heads";

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
    let config = &config.clone().resolved();
    config.check().map_err(fitting::failure)?;
    fitting::check_resume(resume)?;
    let dir = load::folder(&config.model, settings)?;
    let backbone = Backbone::load(config, &dir, settings)?;
    let launch = Launch { config, dir: &dir, before: backbone.hash.clone(), resume, dry_run, settings };
    match config.method {
        HeadMethod::Medusa => launch.fit(backbone.medusa(config)?),
        HeadMethod::Eagle => launch.fit(backbone.eagle(config)?),
        HeadMethod::Eagle3 => launch.fit(backbone.eagle3(config)?),
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
    settings: &'a Settings,
}

impl Launch<'_> {
    fn fit<F: OnBackbone>(&self, mut job: Job<F>) -> Result<Done, Failure> {
        let Self { config, dir, resume, settings, .. } = *self;
        job.check(config)?;
        job.say_plan(config, settings)?;
        if self.dry_run {
            return Ok(Done::Planned);
        }
        let stem = format!("{}-{}", config.method.name(), fitting::stem(dir));
        let inputs = shard::files(&config.data)?;
        let run = fitting::run_folder(&config.runs, &stem, resume, config, &inputs, settings)?;
        settings.talk.say(format!("run folder {}", run.path().display()));
        if config.cache_features {
            job.cache(&run, settings)?;
        }
        let stop = fitting::stop_flag()?;
        let progress = Progress::new(&run, &job.fit, settings);
        let outcome = fit(&job.objective, &run, &job.fit, &stop, &mut |report| progress.show(&report));
        progress.finish();
        let outcome = outcome.map_err(fitting::failure)?;
        if backbone_hash(dir)? != self.before {
            return Err(Failure::run(format!("{}: the backbone's files changed while it was in use", dir.display())));
        }
        fitting::plots(&run, PLOTS)?;
        if !outcome.finished {
            return Ok(Done::Stopped { run, step: outcome.step });
        }
        copy_best(&run)?;
        Ok(Done::Finished(run))
    }
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
    match (measured.get("head_loss"), measured.get("step_loss")) {
        (Some(_), _) => print_heads(&measured, head_count),
        (_, Some(_)) => print_steps(&measured),
        _ => print_layer(&measured),
    }
    settings.talk.say(format!("best step {best}; heads in {}", heads.display()));
    Ok(())
}

fn print_heads(measured: &Value, head_count: usize) {
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
}

fn print_layer(measured: &Value) {
    let number =
        |key: &str| measured.get(key).and_then(Value::as_f64).map_or_else(|| "-".into(), |x| format!("{x:.3}"));
    let columns = ["smooth L1", "cross-entropy", "top-1", "top-5"].map(Column::number);
    let mut table = Table::new(columns);
    table.row(["regression", "cross_entropy", "top1", "top5"].map(number));
    crate::printer::piece(&table.to_text());
    print_decoded(measured);
}

/// EAGLE-3: every step of the unrolled layer.
fn print_steps(measured: &Value) {
    let list = |key: &str| measured.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut table = Table::new(["step", "cross-entropy", "top-1"].map(Column::number));
    for (i, (loss, top1)) in list("step_loss").iter().zip(list("step_top1")).enumerate() {
        let number = |value: &Value| value.as_f64().map_or_else(|| "-".into(), |x| format!("{x:.3}"));
        table.row([(i + 1).to_string(), number(loss), number(&top1)]);
    }
    crate::printer::piece(&table.to_text());
    if let Some(draftable) = measured.get("draftable").and_then(Value::as_f64) {
        crate::printer::line(&format!("{:.1} % of the backbone's tokens can be drafted", 100.0 * draftable));
    }
    print_decoded(measured);
}

/// What decoding held-out prompts with a draft layer gave.
fn print_decoded(measured: &Value) {
    let depths = measured.get("accepted_by_depth").and_then(Value::as_array).cloned().unwrap_or_default();
    let depths: Vec<String> = depths.iter().map(|share| format!("{:.2}", share.as_f64().unwrap_or(f64::NAN))).collect();
    if let Some(tau) = measured.get("tau").and_then(Value::as_f64) {
        crate::printer::line(&format!(
            "tokens per step when decoding held-out prompts with dynamic:60,5,10: {tau:.2}; steps with at least 1, 2, ... \
             drafts accepted: {}",
            depths.join(" ")
        ));
    }
}
