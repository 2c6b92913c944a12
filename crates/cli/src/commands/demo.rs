//! `gorgon demo`: the way from nothing to decoded tokens, without a download.

use crate::args::{Demo, Draft, Generate, Prompt};
use crate::commands::drafting::DrafterChoice;
use crate::commands::{doctor, generate};
use crate::error::Failure;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::{self, LlamaShape};
use std::path::Path;
use std::process::ExitCode;

/// Small enough to be written in a second, large enough to take measurable time per token.
const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 512,
    intermediate_size: 1408,
    layers: 8,
    heads: 8,
    kv_heads: 4,
    vocab_size: 4096,
    max_positions: 1024,
};

pub fn run(args: &Demo, settings: &Settings) -> Result<ExitCode, Failure> {
    if !settings.json {
        doctor::examine(settings).print();
    }
    if in_use(&args.dir) {
        let message = format!("{}: this folder holds something else than a demo's model", args.dir.display());
        return Err(Failure::input(message).hint("name another folder with --dir"));
    }
    let written = SHAPE.write(&args.dir, FloatFormat::F16, settings.seed);
    written.map_err(|error| Failure::run(format!("{}: cannot be written: {error}", args.dir.display())))?;
    settings
        .talk
        .say(format!("\nwrote a randomly initialised model to {}; what it says means nothing", args.dir.display()));
    let model = args.dir.display().to_string();
    settings.talk.say(format!("gorgon generate --model {model} --ids 256,72,101,108,108,111 --max-new-tokens 64\n"));
    let generate = Generate {
        model,
        draft: Draft { heads: None, drafter: DrafterChoice::None, tree: None },
        accept: RuleChoice::Auto,
        prompt: Prompt { prompt: None, ids: Some("256,72,101,108,108,111".into()) },
        raw: false,
        system: None,
        max_new_tokens: Some(64),
        temperature: 0.0,
        top_p: None,
        top_k: None,
        ignore_eos: true,
        print_ids: true,
    };
    generate::run(&generate, settings)
}

/// True if a folder holds files that no random checkpoint has: a demo must not write over somebody's model.
fn in_use(dir: &Path) -> bool {
    let Ok(files) = dir.read_dir() else { return dir.exists() };
    // Temporary files of a run that was killed are nobody's.
    let mut names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    names.any(|name| !name.starts_with(".gorgon-")) && !random::is_random(dir)
}
