//! `gorgon completions` and `gorgon dev man`: files made from the command line's own description.

use crate::args::{Cli, Completions, Man};
use crate::printer;
use crate::settings::Settings;
use clap::CommandFactory;
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::process::ExitCode;

/// Prints a completion script; in JSON as a string.
///
/// # Errors
/// None.
pub fn completions(args: &Completions, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::command(), "gorgon", &mut script);
    let script = String::from_utf8_lossy(&script);
    match settings.json {
        true => printer::document(&json!({ "shell": args.shell.to_string(), "script": script }).to_string()),
        false => printer::piece(&script),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a man page per verb.
///
/// # Errors
/// When the folder cannot be written.
pub fn man(args: &Man, settings: &Settings) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(&args.dir).map_err(|error| Failure::io(&args.dir, &error))?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(|error| Failure::io(&args.dir, &error))?;
    match settings.json {
        true => printer::document(&json!({ "folder": args.dir }).to_string()),
        false => settings.console.say(format!("man pages in {}", args.dir.display())),
    }
    Ok(ExitCode::SUCCESS)
}
