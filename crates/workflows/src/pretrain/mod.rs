//! Pretraining: a small Llama from scratch.

mod corpus;
mod prepared;

use self::corpus::Corpus;
use self::prepared::{Prepared, make, prepare};
use crate::config::Resume;
use crate::estimate::{Measured, Pool};
use crate::failure::{Failure, FailureKind};
use crate::files;
use crate::fitting::replicas::{self, Lead};
use crate::fitting::{self, Fitted, Plot, Progress, Results};
use crate::settings::Settings;
use gorgon_data::vocabulary;
use gorgon_runs::run_dir::RunDir;
use gorgon_text::tokenizer::Tokenizer;
use gorgon_train::config::PretrainConfig;
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::{self, Pretraining};
use gorgon_train::trainer::Outcome;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How far a pretraining came.
pub enum Done {
    /// It was only planned; the plan as a document.
    Planned(Value),
    /// The model is written.
    Finished,
    /// It stopped on request after this step.
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
/// When the config or the data are wrong, a loss is not finite, or the run folder or the model cannot be written.
pub fn execute(
    config: &PretrainConfig,
    resume: Option<Resume<'_>>,
    dry_run: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    let config = config.clone().resolved();
    check(&config)?;
    let changes = fitting::changes(resume, &config)?;
    let replicas = settings.divided();
    let settings = &replicas[0];
    let corpus = Corpus::read(&config, settings)?;
    if dry_run {
        let folder = tempfile::tempdir().map_err(Failure::run)?;
        let tokenizer = tokenizer(&config, &corpus, folder.path(), settings)?;
        let prepared = prepare(&config, &corpus, &tokenizer, settings)?;
        let (mut document, steps) = (prepared.plan.document(), prepared.fit.schedule.steps);
        document["steps"] = steps.into();
        if let Some(resume) = resume {
            document["resume"] = fitting::report_resume(resume.run, steps, &changes, settings)?;
        }
        return Ok(Done::Planned(document));
    }
    // Where the model will be written in the end.
    files::check_writable(&config.out)?;
    let stem = format!("pretrain-{}", files::stem(&config.out));
    let resume = resume.map(|resume| (resume, changes.as_slice()));
    let run = fitting::run_folder((&config.runs, &stem), resume, &config, &corpus.inputs, settings)?;
    settings.console.say(format!("run folder {}", run.path().display()));
    let tokenizer = tokenizer(&config, &corpus, run.path(), settings)?;
    let mut prepared = prepare(&config, &corpus, &tokenizer, settings)?;
    prepared.plan.disk.other = files::folder_bytes(run.path());
    let copy = |settings: &Settings| Ok(make(&config, &corpus, &tokenizer, settings)?.0);
    let (outcome, measured) = fit(&prepared, &run, &copy, &replicas)?;
    fitting::draw(&run, PLOTS)?;
    if !outcome.finished {
        return Ok(Done::Stopped { run, step: outcome.step });
    }
    write(&config.out, &tokenizer, &prepared.objective, &outcome.parameters)?;
    let (disk, checkpoints) = (files::folder_bytes(run.path()), run.steps()?.len() as u64);
    let measured = Measured { disk, checkpoints, whole: resume.is_none(), ..measured };
    let plan = prepared.plan.close(&measured, settings);
    let parameters = outcome.parameters.iter().map(Parameter::len).sum();
    let fitted = Fitted { method: "pretrain", model: &config.out.display().to_string(), parameters };
    Results::read(&run, &fitted, plan)?.write(&run)?;
    settings.console.say(format!("wrote {}", config.out.display()));
    Ok(Done::Finished)
}

/// Fits on all devices of `replicas`; `copy` makes what the devices after the first fit.
fn fit(
    prepared: &Prepared,
    run: &RunDir,
    copy: &(dyn Fn(&Settings) -> Result<Pretraining, Failure> + Sync),
    replicas: &[Settings],
) -> Result<(Outcome, Measured), Failure> {
    let progress = Progress::new(run, &prepared.fit, &replicas[0]);
    let lead = Lead { objective: &prepared.objective, run, fit: &prepared.fit };
    let outcome = replicas::fit(&lead, copy, replicas, &mut |report| progress.show(&report));
    progress.finish();
    let outcome = outcome?;
    let measured = Measured {
        memory: prepared.watch.peak(),
        pool: prepared.pool.as_ref().map(Pool::grown),
        spent: outcome.spent,
        corrected: progress.corrected(),
        ..Measured::default()
    };
    Ok((outcome, measured))
}

/// Fails where a config can be seen to be wrong before anything is read.
fn check(config: &PretrainConfig) -> Result<(), Failure> {
    config.check().map_err(|errors| Failure::settings(&errors))
}

/// Writes the model with its tokenizer.
fn write(out: &Path, tokenizer: &Path, objective: &Pretraining, parameters: &[Parameter]) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|e| Failure::run(format!("{}: {e}", out.display())))?;
    let ids = Tokenizer::load(tokenizer)?.special_ids();
    let tokens = [ids.bos.unwrap_or(0), ids.eos.unwrap_or(1)];
    pretrain::write_model(out, objective.shape(), parameters, tokens).map_err(Failure::training)?;
    files::copy_tokenizer(tokenizer, out)
}

/// The plots of a pretraining.
pub(crate) const PLOTS: &[Plot] = &[
    Plot {
        file: "loss.svg",
        title: "Loss of the assistant's tokens",
        y_label: "cross-entropy (nats per token)",
        lines: &[("answer_loss", "training"), ("evaluation/answer_loss", "held-out text")],
    },
    Plot {
        file: "accuracy.svg",
        title: "The assistant's tokens that are predicted",
        y_label: "share of tokens (top-1 accuracy)",
        lines: &[("answer_top1", "training"), ("evaluation/answer_top1", "held-out text")],
    },
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
    settings.console.say(format!("training a tokenizer of {} tokens", config.tokenizer.size));
    std::fs::create_dir_all(&dir).map_err(|e| Failure::run(format!("{}: {e}", dir.display())))?;
    vocabulary::train(corpus.texts(config.tokenizer.conversations), config.tokenizer.size, &dir).map_err(|error| {
        let failure = Failure::io(&dir, &error);
        if failure.kind() == FailureKind::Run {
            return failure;
        }
        Failure::input(format!("tokenizer.size: {error}")).hint("ask for fewer tokens, or give it more text")
    })?;
    // A renderer reads a model's folder, and there is no model yet.
    let shape = config.model.with_vocabulary(config.tokenizer.size)?;
    pretrain::write_config(&dir, &shape, [0, 1]).map_err(Failure::training)?;
    Ok(dir)
}
