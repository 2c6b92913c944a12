//! `gorgon doctor`: what this machine has, what is wrong with it, and whether drafting pays on it.

use crate::args::Doctor;
use crate::printer::{document, line};
use crate::settings::Settings;
use gorgon_workflows::doctor::{self, Report};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::prediction;
use std::process::ExitCode;

pub fn run(args: &Doctor, settings: &Settings) -> Result<ExitCode, Failure> {
    let report = doctor::examine(settings);
    let prediction = match (&args.model, &args.heads) {
        (Some(model), Some(heads)) => Some(prediction::predict(model, heads, settings)?),
        _ => None,
    };
    if settings.json {
        let mut whole = report.document();
        if let Some(prediction) = &prediction {
            whole["drafting"] = prediction.document();
        }
        document(&whole.to_string());
    } else {
        print(&report);
        if let Some(prediction) = &prediction {
            line(&format!("drafting {}", prediction.sentence()));
        }
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
