//! `gorgon demo`: from prompts to measured, verified, faster decoding, without a download.

use crate::args::Demo;
use crate::commands::train::report;
use crate::commands::{bench, tree, verify};
use crate::printer;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_draft::ngram::Ngram;
use gorgon_draft::training_free::TrainingFree;
use gorgon_workflows::demo::{self, Options};
use gorgon_workflows::drafting::DrafterChoice;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring;
use gorgon_workflows::measuring::calibration::measure_and_store;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &Demo, settings: &Settings) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let say = |what: &str| settings.console.say(format!("\n== {what}"));
    let options = Options { model: args.model.clone(), dialogues: args.dialogues.into(), dir: args.dir.clone() };
    let Some(run) = demo::trained(&options, settings)? else { return Ok(ExitCode::FAILURE) };
    if !settings.json {
        report(&run, settings)?;
    }
    say("a tree is calibrated: accuracies and step times, measured here");
    let (first, second) = demo::prompts(&args.dir)?;
    let (calibrated, _) = measure_and_store(&measured_on(args, run.path(), &first), 7, settings)?;
    if !settings.json {
        tree::report(&calibrated);
    }
    say("plain and drafted decoding of other held-out prompts, side by side");
    let options = measured_on(args, run.path(), &second);
    let measured = bench::execute(&options, 3, settings)?;
    if !settings.json {
        measured.print(false);
    }
    let counts = compare(&options, settings)?;
    finish(args, &run.path().display().to_string(), &measured.document, &counts, started, settings);
    Ok(if counts.same == counts.compared { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prompt lookup on the same prompts, and whether the heads' text is plain text.
fn compare(options: &measuring::Options, settings: &Settings) -> Result<Counts, Failure> {
    let say = |what: &str| settings.console.say(format!("\n== {what}"));
    say("prompt lookup on the same prompts: what drafting gives without training");
    let lookup = lookup(options, settings)?;
    say("is the text the same?");
    let (comparisons, ..) = verify::execute(options, settings)?;
    let same = comparisons.iter().filter(|c| c.divergence.is_none()).count();
    Ok(Counts { same, compared: comparisons.len(), lookup })
}

fn measured_on(args: &Demo, run: &Path, prompts: &Path) -> measuring::Options {
    measuring::Options {
        model: args.model.clone(),
        heads: Some(run.into()),
        drafter: DrafterChoice::Auto,
        tree: None,
        prompts: prompts.into(),
        turns: 1,
        limit: demo::HELD_OUT as usize,
        max_new_tokens: 128,
        accept: RuleChoice::Auto,
        transform: Transform::GREEDY,
        ignore_eos: false,
    }
}

/// Tokens per step of prompt lookup.
fn lookup(options: &measuring::Options, settings: &Settings) -> Result<f64, Failure> {
    let drafter = DrafterChoice::TrainingFree(TrainingFree::Ngram(Ngram { n: 3 }));
    let measured = bench::execute(&measuring::Options { heads: None, drafter, ..options.clone() }, 1, settings)?;
    let summary = &measured.document["summary"];
    let (tokens, speedup) = (summary["tokens_per_step"].as_f64(), summary["speedup"].as_f64());
    let (tokens, speedup) = (tokens.unwrap_or(f64::NAN), speedup.unwrap_or(f64::NAN));
    if !settings.json {
        printer::line(&format!("{tokens:.2} tokens per step, {speedup:.2} times as fast as plain decoding"));
    }
    Ok(tokens)
}

/// Counts that are printed at the end.
struct Counts {
    same: usize,
    compared: usize,
    /// Tokens per step of prompt lookup.
    lookup: f64,
}

fn finish(
    args: &Demo,
    run: &str,
    measured: &serde_json::Value,
    &Counts { same, compared, lookup }: &Counts,
    started: Instant,
    settings: &Settings,
) {
    let seconds = started.elapsed().as_secs_f64();
    if settings.json {
        let document = json!({
            "run": run, "summary": measured["summary"], "tree": measured["tree"], "same_text": same,
            "compared": compared, "prompt_lookup_tokens_per_step": lookup, "seconds": seconds,
        });
        printer::document(&document.to_string());
        return;
    }
    printer::line(&format!("{same} of {compared} answers have the same text with and without heads"));
    printer::line("");
    printer::line(&format!("run folder {run} (metrics.jsonl, plots/*.svg); {seconds:.0} s in all"));
    printer::line(&format!("gorgon chat --model {} --heads {run}", args.model));
}
