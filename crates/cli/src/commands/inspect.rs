//! `gorgon inspect`: what a file or folder holds, and what is wrong with it.

use crate::args::Inspect;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::inspect::{self, Report};
use std::process::ExitCode;

pub fn run(args: &Inspect, settings: &Settings) -> Result<ExitCode, Failure> {
    let report = inspect::examine(&args.path)?;
    match settings.json {
        true => printer::document(&report.document(&args.path).to_string()),
        false => print(&report),
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(report: &Report) {
    let mut table = Table::new(["", ""].map(Column::text));
    table.row(["kind", report.kind]);
    let told = report.facts.0.iter().filter(|fact| !fact.words().is_empty());
    told.for_each(|fact| table.row([fact.name.clone(), fact.words()]));
    printer::table(&table);
    report.notes.iter().for_each(|note| printer::line(&format!("note: {note}")));
    report.problems.iter().for_each(|problem| printer::line(&format!("problem: {problem}")));
    if report.problems.is_empty() {
        printer::line("no problems");
    }
}
