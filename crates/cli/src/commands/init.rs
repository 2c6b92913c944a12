//! `gorgon init`: commented configs for a model and a file of prompts.

use crate::args::Init;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::init::{self, Options, Written};
use gorgon_workflows::units::bytes;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Init, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = Options { model: &args.model, prompts: &args.prompts, method: &args.method, dir: &args.dir };
    let Written { files, commands, plan, memory } = init::write(&options, settings)?;
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    if settings.json {
        printer::document(&json!({"files": files, "commands": commands, "plan": plan}).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    files.iter().for_each(|file| printer::line(&format!("wrote {file}")));
    printer::line("next:");
    commands.iter().for_each(|command| printer::line(&format!("  {command}")));
    if let Some(memory) = memory {
        let plan = "gorgon train with --dry-run says more once the answers are there";
        printer::line(&format!(
            "by formula, training takes up to {} of memory beside the model; {plan}",
            bytes(memory)
        ));
    }
    printer::line(&format!("HELD_OUT is a file of prompts that are not in {}", args.prompts.display()));
    Ok(ExitCode::SUCCESS)
}
