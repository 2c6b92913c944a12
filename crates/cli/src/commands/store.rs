//! `gorgon store`: stores of past answers and documents.

use crate::args::StoreCommand;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::store::{self, Options};
use serde_json::Value;
use std::process::ExitCode;

pub fn run(command: &StoreCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    let document = match command {
        StoreCommand::Build(args) => {
            let Some((out, files)) = args.paths.split_last().filter(|(_, files)| !files.is_empty()) else {
                let failure = Failure::input("store build: only one file is named, and the store to write is the last");
                return Err(failure.hint("gorgon store build FILES --model M OUT"));
            };
            let options = Options { files: files.to_vec(), model: args.model.clone(), out: out.clone() };
            store::build(&options, settings)?
        }
        StoreCommand::Inspect(args) => store::inspect(&args.store)?,
        StoreCommand::Save(args) => store::save(&args.url, &args.out)?,
    };
    if settings.json {
        printer::document(&document.to_string());
    } else {
        report(&document);
    }
    Ok(ExitCode::SUCCESS)
}

fn report(store: &Value) {
    let text = |key: &str| store[key].as_str().unwrap_or_default();
    let number = |key: &str| store[key].as_u64().unwrap_or_default();
    printer::line(&format!(
        "{}: {} tokens of {} documents, {} bytes ({:.1} a token), tokens below {}",
        text("path"),
        number("tokens"),
        number("documents"),
        number("bytes"),
        store["bytes_per_token"].as_f64().unwrap_or_default(),
        number("vocabulary")
    ));
    printer::line(&format!("tokenizer {}", text("tokenizer_sha256")));
    printer::line(&format!("contents {}", text("contents_sha256")));
}
