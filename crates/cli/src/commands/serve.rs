//! `gorgon serve`: an OpenAI-compatible server.

use crate::args::Serve;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::serve::ServeJob;
use serde_json::json;
use std::process::ExitCode;

/// The environment variable with the API key.
const KEY: &str = "GORGON_API_KEY";

pub fn run(args: &Serve, settings: &Settings) -> Result<ExitCode, Failure> {
    let job = ServeJob {
        model: args.model.clone(),
        name: args.name.clone(),
        heads: args.draft.heads.clone(),
        host: args.host,
        port: args.port,
        batch: usize::from(args.batch),
        queue: args.queue.map(|queue| queue as usize),
        cache_tokens: args.cache_tokens.map(|tokens| tokens as usize),
        timeout: args.timeout.into(),
        api_key_file: args.api_key_file.clone(),
        api_key: std::env::var(KEY).ok(),
        cors: args.cors.clone(),
        learn: args.learn.learning(),
    };
    let drafting = args.draft.resolve(&settings.console)?;
    let mut served = None;
    job.run(drafting, settings, &mut |address, name| {
        settings.console.say(format!("{name} is served at http://{address} (Ctrl-C ends it)"));
        served = Some((address, name.to_owned()));
    })?;
    if let (true, Some((address, name))) = (settings.json, served) {
        crate::printer::document(&json!({"address": address.to_string(), "model": name}).to_string());
    }
    Ok(ExitCode::SUCCESS)
}
