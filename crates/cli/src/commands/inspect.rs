//! `gorgon inspect`: what a folder holds, and what is wrong with it.

use crate::args::Inspect;
use crate::printer::{document, line};
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::inspect::{self, Report};
use std::process::ExitCode;

pub fn run(args: &Inspect, settings: &Settings) -> Result<ExitCode, Failure> {
    let report = inspect::examine(&args.dir)?;
    match settings.json {
        true => document(&report.document(&args.dir).to_string()),
        false => print(&report),
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(report: &Report) {
    line(&format!("{:<22} {}", "kind", report.kind));
    for (name, value) in &report.facts {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line(&format!("{:<22} {text}", name.replace('_', " ")));
    }
    report.notes.iter().for_each(|note| line(&format!("note: {note}")));
    report.problems.iter().for_each(|problem| line(&format!("problem: {problem}")));
    if report.problems.is_empty() {
        line("no problems");
    }
}
