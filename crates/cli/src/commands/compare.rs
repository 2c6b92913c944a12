//! `gorgon compare`: several methods fitted to answers of one backbone, calibrated and measured side by side.
//!
//! Finished work lies on the disk: shards, a run folder per training, a file per measurement. `--resume` does
//! whatever is missing.

use super::{bench, resume};
use crate::args::Fit;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_workflows::compare::measuring::{self, Measuring};
use gorgon_workflows::compare::{self, CompareConfig, Outcome};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::fitting::Inputs;
use gorgon_workflows::measuring::side_by_side::Measured;
use gorgon_workflows::{fitting, hub_id, load};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: CompareConfig = args.given(settings).load()?;
    if args.print_config {
        return super::config::print(config, settings);
    }
    let settings = &settings.with_template(&config.template);
    let changes = fitting::changes(args.run(), &config)?;
    compare::check_trainings(&config)?;
    for method in &config.methods {
        measuring::drafter(method, Path::new("."))?;
    }
    let folder = load::decoder_only(&config.model, "compare", settings)?;
    let (_, prompts) = measuring::prompt_lines(&config, settings)?;
    check_shards(&config)?;
    let plan = compare::report_plan(&config, args.run(), settings)?;
    if args.dry_run {
        return Ok(super::config::planned(&plan, settings));
    }
    let is_distilled = compare::has_shards(&config.data) || compare::distil(&config, settings)?;
    if !is_distilled || !compare::write_trajectories(&config, settings)? {
        return Ok(ExitCode::FAILURE);
    }
    let stem = format!("compare-{}", hub_id::stem(&config.model, &folder));
    let inputs = Inputs::fixed(prompts);
    let resume = args.run().map(|resume| (resume, changes.as_slice()));
    let run = fitting::run_folder((&config.runs, &stem), resume, &config, &inputs, settings)?;
    settings.console.say(format!("run folder {}", run.path().display()));
    let shown = |measured: &Measured| show(measured, settings);
    let measuring = Measuring::new(&config, run.path(), settings, &shown)?;
    let mut results = vec![];
    for method in &config.methods {
        let Some(fitted) = compare::fit(&config, method, &run, settings)? else {
            return Ok(resume::stopped("compare", &run, None, settings));
        };
        results.extend(measuring.method(method, &fitted)?);
    }
    compare::write(&run, &config, &results)?;
    print(&run, &results, settings);
    Ok(ExitCode::SUCCESS)
}

fn show(measured: &Measured, settings: &Settings) {
    if !settings.json {
        bench::print(measured, false);
    }
}

/// Fails where there are no shards, and no config that makes them.
fn check_shards(config: &CompareConfig) -> Result<(), Failure> {
    for (i, data) in config.methods.iter().enumerate().filter_map(|(i, method)| Some((i, method.data.as_ref()?))) {
        if !compare::check_shards(data)? {
            return Err(Failure::input(format!("methods[{i}].data: {}: there are no shards here", data.display())));
        }
    }
    if compare::check_shards(&config.data)? || config.distill.is_some() {
        return Ok(());
    }
    let message = format!("data: {}: there are no shards here", config.data.display());
    Err(Failure::input(message).hint("name with distill the config that makes them"))
}

/// Prints the table, or everything as JSON.
fn print(run: &RunDir, outcomes: &[Outcome], settings: &Settings) {
    if settings.json {
        let document = json!({"run": run.path().display().to_string(), "results": outcomes});
        return printer::document(&document.to_string());
    }
    printer::line("");
    printer::table(&compare::table(outcomes));
    settings.console.say(format!("run folder {} (results.json, table.md, plots/*.svg)", run.path().display()));
}
