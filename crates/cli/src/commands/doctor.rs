//! `gorgon doctor`: what this machine has, and what is wrong with it.

use crate::printer::{document, line};
use crate::settings::Settings;
use gorgon_workflows::doctor::{self, Report};
use gorgon_workflows::failure::Failure;
use std::process::ExitCode;

pub fn run(settings: &Settings) -> Result<ExitCode, Failure> {
    let report = doctor::examine(settings);
    match settings.json {
        true => document(&report.document().to_string()),
        false => print(&report),
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(report: &Report) {
    for (name, value) in &report.facts {
        line(&format!("{name:<8} {value}"));
    }
    for (problem, hint) in &report.problems {
        line(&format!("problem  {problem}"));
        line(&format!("  hint:  {hint}"));
    }
    if report.problems.is_empty() {
        line("all well");
    }
}
