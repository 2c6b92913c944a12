//! `gorgon runs`: run folders listed, shown, compared, and their plots opened.

use crate::args::{CompareRuns, ListRuns, OneRun, RunsCommand};
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::inspect::words;
use gorgon_workflows::load::check_output;
use gorgon_workflows::runs::{self, RunDetails, RunSummary};
use gorgon_workflows::units::bytes;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The folder that trainings make runs in unless their config names another.
const RUNS: &str = "checkpoints";

pub fn run(command: &RunsCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        RunsCommand::List(args) => list(args, settings),
        RunsCommand::Show(args) => show(args, settings),
        RunsCommand::Compare(args) => compare(args, settings),
        RunsCommand::Open(args) => open(args, settings),
    }
}

fn list(args: &ListRuns, settings: &Settings) -> Result<ExitCode, Failure> {
    // Before the first training there is no such folder.
    let before = args.folders == [Path::new(RUNS)] && !Path::new(RUNS).exists();
    let folders = if before { vec![] } else { runs::find(&args.folders)? };
    let found = folders.iter().map(|folder| RunSummary::read(folder)).collect::<Result<Vec<RunSummary>, Failure>>()?;
    match settings.json {
        true => printer::document(&json!({ "runs": found }).to_string()),
        false if found.is_empty() => {
            let folders: Vec<String> = args.folders.iter().map(|folder| folder.display().to_string()).collect();
            settings.console.say(format!("note: no run folders in {}; gorgon train makes them", folders.join(", ")));
        }
        false => print(&found),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(found: &[RunSummary]) {
    printer::table(&runs::table(found));
    for run in found {
        for problem in &run.problems {
            printer::line(&format!("problem: {problem}"));
        }
    }
}

fn show(args: &OneRun, settings: &Settings) -> Result<ExitCode, Failure> {
    let details = RunDetails::read(&args.run)?;
    if settings.json {
        printer::document(&json!(details).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    print(std::slice::from_ref(&details.summary));
    let mut table = Table::new(["", ""].map(Column::text));
    let path = |path: &Option<PathBuf>| path.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
    table.row(["newest checkpoint", &path(&details.newest_checkpoint)]);
    table.row(["best step", &details.best_step.map_or_else(|| "-".into(), |step| step.to_string())]);
    table.row(["heads", &path(&details.heads)]);
    if let Some(provenance) = &details.provenance {
        let launch = &provenance.launch;
        table.row(["started", &launch.started]);
        table.row(["gorgon", &launch.build.to_string()]);
        table.row(["device", &launch.host.device]);
        table.row(["command", &launch.command.join(" ")]);
        table.row(["resumed", &format!("{} times", provenance.resumed.len())]);
    }
    if let Some(results) = &details.results {
        let facts = [
            ("parameters", "/parameters"),
            ("held-out top-1", "/held_out/top1"),
            ("held-out top-5", "/held_out/top5"),
            ("training tokens/s", "/training_tokens_per_second"),
            ("fitting seconds", "/plan/fitting_seconds/measured"),
        ];
        for (name, pointer) in facts {
            table.row([name, &results.pointer(pointer).map_or_else(|| "-".into(), words)]);
        }
        for (name, pointer) in [("memory", "/plan/memory_bytes/measured"), ("disk", "/plan/disk_bytes/measured")] {
            let size = results.pointer(pointer).and_then(Value::as_f64);
            table.row([name, &size.map_or_else(|| "-".into(), |size| bytes(size as u64))]);
        }
    }
    details.plots.iter().for_each(|plot| table.row(["plot", &plot.display().to_string()]));
    table.row(["resume", details.resume.as_deref().unwrap_or("-")]);
    printer::table(&table);
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &CompareRuns, settings: &Settings) -> Result<ExitCode, Failure> {
    let compared = runs::compare(&args.runs, args.metric.as_deref())?;
    check_output(&args.out)?;
    compared.chart.write(&args.out)?;
    match settings.json {
        true => {
            let document = json!({"runs": compared.runs, "metric": compared.metric, "chart": args.out});
            printer::document(&document.to_string());
        }
        false => print(&compared.runs),
    }
    settings.console.say(format!("{} over the training steps in {}", compared.chart.title, args.out.display()));
    Ok(ExitCode::SUCCESS)
}

fn open(args: &OneRun, settings: &Settings) -> Result<ExitCode, Failure> {
    let RunDetails { plots, .. } = RunDetails::read(&args.run)?;
    if settings.json {
        printer::document(&json!({ "plots": plots }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if plots.is_empty() {
        settings
            .console
            .say(format!("note: {}: no plots yet; they are drawn when a training ends", args.run.display()));
    }
    plots.iter().for_each(|plot| printer::line(&plot.display().to_string()));
    if let Some(opener) = opener().filter(|_| std::io::stdout().is_terminal()) {
        for plot in &plots {
            // A desktop without a viewer is no failure: the paths were printed.
            let _ = Command::new(opener).arg(plot).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the plots of a run again.
pub fn plot(args: &OneRun, settings: &Settings) -> Result<ExitCode, Failure> {
    let plots = runs::redraw(&args.run)?;
    match settings.json {
        true => printer::document(&json!({ "plots": plots }).to_string()),
        false => plots.iter().for_each(|plot| printer::line(&plot.display().to_string())),
    }
    Ok(ExitCode::SUCCESS)
}

/// The program that opens files on this desktop, if there is one.
fn opener() -> Option<&'static str> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match std::env::consts::OS {
        "macos" => Some("open"),
        "windows" => Some("explorer"),
        _ => (has("DISPLAY") || has("WAYLAND_DISPLAY")).then_some("xdg-open"),
    }
}
