//! `gorgon dev t5`: a small encoder-decoder model from scratch.

use crate::args::T5;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::t5::{self, Options};
use std::process::ExitCode;

pub fn run(args: &T5, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = Options {
        out: args.out.clone(),
        hidden_size: args.hidden_size as usize,
        layers: args.layers as usize,
        heads: args.heads as usize,
        steps: args.steps,
        pairs: args.pairs as usize,
        learning_rate: args.learning_rate,
    };
    let document = t5::execute(&options, settings)?;
    match settings.json {
        true => printer::document(&document.to_string()),
        false => settings.console.say(format!("wrote {}: {} parameters", args.out.display(), document["parameters"])),
    }
    Ok(ExitCode::SUCCESS)
}
