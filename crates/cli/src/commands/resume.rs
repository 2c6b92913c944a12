//! A run that stopped before its end.

use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::visible;
use serde_json::json;
use std::process::ExitCode;

/// The command that resumes a run, as it is typed. The run knows its config.
pub fn command(verb: &str, run: &RunDir) -> String {
    format!("gorgon {verb} --resume {}", visible::word(run.path()))
}

/// Reports at which step a run stopped, if it has steps, and how to resume it.
pub fn stopped(verb: &str, run: &RunDir, step: Option<u64>, settings: &Settings) -> ExitCode {
    let resume = command(verb, run);
    if settings.json {
        let run = run.path().display().to_string();
        printer::document(&json!({"run": run, "stopped_at_step": step, "resume": resume}).to_string());
    } else {
        let saved = step.map_or_else(|| "stopped".to_owned(), |step| format!("saved step {step}"));
        settings.console.say(format!("{saved}; resume with: {resume}"));
    }
    ExitCode::FAILURE
}
