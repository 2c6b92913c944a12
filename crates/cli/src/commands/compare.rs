//! `gorgon compare`: several methods fitted to the same answers of one backbone, calibrated and measured side by side.
//!
//! What is done lies on the disk: shards, a run folder per training, a file per measurement. `--resume` does
//! whatever is missing.

mod measured;

use self::measured::Measuring;
use super::resume;
use crate::args::Fit;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_workflows::compare::{self, CompareConfig, Outcome};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::{config as configs, files, fitting, load};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: CompareConfig = configs::load(&args.config, &args.overrides)?;
    config.check()?;
    fitting::check_resume(args.resume.as_deref())?;
    compare::check_trainings(&config)?;
    for method in &config.methods {
        measured::drafter(method, Path::new("."))?;
    }
    load::folder(&config.model, settings)?;
    measured::prompt_lines(&config)?;
    if !compare::has_shards(&config) && config.distill.is_none() {
        let message = format!("data: {}: there are no shards here", config.data.display());
        return Err(Failure::input(message).hint("name with distill the config that makes them"));
    }
    compare::report_plan(&config, settings);
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !compare::has_shards(&config) && !compare::distil(&config, settings)? {
        return Ok(ExitCode::FAILURE);
    }
    let stem = format!("compare-{}", files::stem(Path::new(&config.model)));
    let inputs = std::slice::from_ref(&config.prompts);
    let run = fitting::run_folder(&config.runs, &stem, args.resume.as_deref(), &config, inputs, settings)?;
    settings.console.say(format!("run folder {}", run.path().display()));
    let measuring = Measuring::new(&config, run.path(), settings)?;
    let mut results = vec![];
    for method in &config.methods {
        let Some(fitted) = compare::fit(&config, method, &run, settings)? else {
            let line = resume::command(args, "compare", &run);
            settings.console.say(format!("stopped; resume with: {line}"));
            return Ok(ExitCode::FAILURE);
        };
        results.extend(measuring.method(method, &fitted)?);
    }
    compare::write(&run, &config, &results)?;
    print(&run, &results, settings);
    Ok(ExitCode::SUCCESS)
}

/// Prints the table, or everything as JSON.
fn print(run: &RunDir, outcomes: &[Outcome], settings: &Settings) {
    if settings.json {
        let document = json!({"run": run.path().display().to_string(), "results": outcomes});
        return printer::document(&document.to_string());
    }
    printer::line("");
    printer::piece(&compare::table(outcomes).to_text());
    settings.console.say(format!("run folder {} (results.json, table.md, plots/*.svg)", run.path().display()));
}
