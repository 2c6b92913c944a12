//! `gorgon demo`: from prompts to measured, verified, faster decoding, without a download.

mod decoding;
mod grown;

use self::decoding::{Decoded, compare, heading, measured_on};
use crate::args::Demo;
use crate::commands::train::report;
use crate::commands::{bench, tree};
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::measure::Summary;
use gorgon_draft::suffix::Suffix;
use gorgon_draft::training_free::TrainingFree;
use gorgon_workflows::demo::{self, Options};
use gorgon_workflows::drafting::DrafterChoice;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::files;
use gorgon_workflows::measuring::calibration::measure_and_store;
use gorgon_workflows::measuring::{self, side_by_side};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &Demo, settings: &Settings) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let options = Options { model: args.model.clone(), dialogues: args.dialogues.into(), dir: args.dir.clone() };
    let Some(run) = demo::trained(&options, settings)? else { return Ok(ExitCode::FAILURE) };
    if !settings.json {
        report(&run, settings)?;
    }
    heading("a tree is calibrated: accuracies and step times, measured here", settings);
    let (first, second) = demo::prompts(&args.dir)?;
    let (calibrated, _) = measure_and_store(&measured_on(&args.model, run.path(), &first), 7, settings)?;
    if !settings.json {
        tree::report(&calibrated);
    }
    heading("plain and drafted decoding of other held-out prompts, side by side", settings);
    let options = measured_on(&args.model, run.path(), &second);
    let measured = side_by_side::execute(&options, 3, settings)?;
    if !settings.json {
        bench::print(&measured, false);
    }
    let small = Decoded::new(&measured, compare(&options, settings)?, settings);
    let lookup = lookup(&options, settings)?;
    let grown = grown::run(args, run.path(), (&first, &second), &small, settings)?;
    let equal = small.counts.all() && grown.as_ref().is_none_or(grown::Grown::is_equal);
    let document = json!({
        "run": run.path(), "summary": measured.document["summary"], "tree": measured.document["tree"],
        "same_text": small.counts.same, "compared": small.counts.compared, "suffix_tokens_per_step": lookup,
        "grown": grown.map(|grown| grown.document), "seconds": started.elapsed().as_secs_f64(),
    });
    files::store_rows(Some(&args.dir.join("demo.json")), &document, settings)?;
    finish(args, &run.path().display().to_string(), &document, started, settings);
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tokens per step of suffix drafts.
fn lookup(options: &measuring::Options, settings: &Settings) -> Result<f64, Failure> {
    heading("suffix drafts on the same prompts: what drafting gives without training", settings);
    let drafter = DrafterChoice::TrainingFree(TrainingFree::Suffix(Suffix { store: None, least: 1 }));
    let measured = side_by_side::execute(&measuring::Options { heads: None, drafter, ..options.clone() }, 1, settings)?;
    let Summary { tokens_per_step: tokens, speedup, .. } = &measured.summary;
    if !settings.json {
        printer::line(&format!("{tokens:.2} tokens per step, {speedup:.2} times as fast as plain decoding"));
    }
    Ok(*tokens)
}

fn finish(args: &Demo, run: &str, document: &Value, started: Instant, settings: &Settings) {
    if settings.json {
        printer::document(&document.to_string());
        return;
    }
    let seconds = started.elapsed().as_secs_f64();
    printer::line("");
    printer::line(&format!("run folder {run} (metrics.jsonl, plots/*.svg); {seconds:.0} s in all"));
    let grown = args.dir.join(grown::FOLDER);
    if document["grown"].is_null() {
        printer::line(&format!("gorgon chat --model {} --heads {run}", args.model));
    } else {
        let [model, heads] = ["model", "heads"].map(|name| grown.join(name).display().to_string());
        // The tree was calibrated in the fastest number format.
        let format = document["grown"]["formats"][0]["options"].as_str();
        let format = format.map_or_else(String::new, |options| format!(" {options}"));
        printer::line(&format!("gorgon chat --model {model} --heads {heads}{format}"));
    }
}
