//! `gorgon demo`: from prompts to measured, verified, faster decoding, without a download.

use crate::args::{Accept, Contest, Demo, Draft};
use crate::commands::drafting::DrafterChoice;
use crate::commands::{bench, distill, train, tree, verify};
use crate::config;
use crate::error::Failure;
use crate::printer;
use crate::settings::Settings;
use gorgon_core::tree::TreeChoice;
use gorgon_data::config::{DistillConfig, Synthetic};
use gorgon_tiny_chat::{self as synth, Split};
use gorgon_train::config::TrainConfig;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The configs that `configs/` holds, with the demo's folders and sizes in place of their own.
const DISTILL: &str = include_str!("../../../../configs/distill-tiny.toml");
const TRAIN: &str = include_str!("../../../../configs/medusa-tiny.toml");
/// Held-out prompts to calibrate on, and as many others to measure on.
const HELD_OUT: u64 = 60;

pub fn run(args: &Demo, settings: &Settings) -> Result<ExitCode, Failure> {
    if !Path::new(&args.model).is_dir() {
        let message = format!("{}: there is no model here", args.model);
        return Err(Failure::input(message).hint("run this in the project's folder, or name a model with --model"));
    }
    let started = Instant::now();
    let say = |what: &str| settings.talk.say(format!("\n== {what}"));
    std::fs::create_dir_all(&args.dir).map_err(|e| Failure::input(format!("{}: {e}", args.dir.display())))?;
    say("the model answers prompts");
    let data = args.dir.join(format!("data-{}-{}", args.dialogues, settings.seed));
    let code = distill::execute(distill_config(args, &data, settings)?, None, false, &settings.quiet_json())?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    say("Medusa heads are fitted to the answers");
    let config = train_config(args, &data)?;
    let run = match train::execute(&config, None, false, &settings.quiet_json())? {
        train::Done::Finished(run) => run,
        _ => return Ok(ExitCode::FAILURE),
    };
    if !settings.json {
        train::report(&run, settings)?;
    }
    say("a tree is calibrated: accuracies and step times, measured here");
    let (first, second) = prompts(&args.dir)?;
    let calibrated = tree::measure_and_store(&contest(args, run.path(), &first, None), 7, settings)?;
    if !settings.json {
        calibrated.print();
    }
    // Without a tree that pays, what heads would cost is shown with a short chain.
    let tree = (!calibrated.has_tree()).then(|| "chain:3".parse::<TreeChoice>()).transpose().map_err(Failure::run)?;
    say("plain and drafted decoding of other held-out prompts, side by side");
    let contest = contest(args, run.path(), &second, tree);
    let measured = bench::execute(&contest, 3, settings)?;
    if !settings.json {
        measured.print(false);
    }
    let counts = compare(&contest, settings)?;
    finish(args, &run.path().display().to_string(), &measured.document, &counts, started, settings);
    Ok(if counts.same == counts.compared { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prompt lookup on the same prompts, and whether the heads' text is plain text.
fn compare(contest: &Contest, settings: &Settings) -> Result<Counts, Failure> {
    let say = |what: &str| settings.talk.say(format!("\n== {what}"));
    say("prompt lookup on the same prompts: what drafting gives without training");
    let lookup = lookup(contest, settings)?;
    say("is the text the same?");
    let (comparisons, ..) = verify::execute(contest, settings)?;
    let same = comparisons.iter().filter(|c| c.divergence.is_none()).count();
    Ok(Counts { same, compared: comparisons.len(), lookup })
}

fn distill_config(args: &Demo, data: &Path, settings: &Settings) -> Result<DistillConfig, Failure> {
    let mut distill: DistillConfig = config::embedded(DISTILL)?;
    distill.model = args.model.clone();
    distill.out = data.into();
    distill.synthetic =
        Some(Synthetic { dialogues: args.dialogues.into(), seed: settings.seed.wrapping_add(100), held_out: false });
    Ok(distill)
}

fn train_config(args: &Demo, data: &Path) -> Result<TrainConfig, Failure> {
    let mut train: TrainConfig = config::embedded(TRAIN)?;
    train.model = args.model.clone();
    train.data = data.into();
    train.runs = args.dir.clone();
    Ok(train)
}

/// Two files of held-out prompts.
fn prompts(dir: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let write = |name: &str, range: std::ops::Range<u64>| {
        let path = dir.join(name);
        let line = |i| json!({"prompt": synth::dialogue(1, Split::HeldOut, i).exchanges[0].user}).to_string() + "\n";
        let text: String = range.map(line).collect();
        gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
        Ok::<_, Failure>(path)
    };
    Ok((write("calibrate.jsonl", 0..HELD_OUT)?, write("bench.jsonl", HELD_OUT..2 * HELD_OUT)?))
}

fn contest(args: &Demo, run: &Path, prompts: &Path, tree: Option<TreeChoice>) -> Contest {
    Contest {
        model: args.model.clone(),
        draft: Draft { heads: Some(run.into()), drafter: DrafterChoice::Auto, tree },
        prompts: Some(prompts.into()),
        turns: 1,
        limit: HELD_OUT as u32,
        max_new_tokens: 128,
        accept: Accept::Auto,
        temperature: 0.0,
        top_p: None,
        top_k: None,
        ignore_eos: false,
    }
}

/// Tokens per step of prompt lookup.
fn lookup(contest: &Contest, settings: &Settings) -> Result<f64, Failure> {
    let draft = Draft { heads: None, drafter: DrafterChoice::Ngram(3), tree: None };
    let measured = bench::execute(&Contest { draft, ..contest.clone() }, 1, settings)?;
    let summary = &measured.document["summary"];
    let (tokens, speedup) = (summary["tokens_per_step"].as_f64(), summary["speedup"].as_f64());
    let (tokens, speedup) = (tokens.unwrap_or(f64::NAN), speedup.unwrap_or(f64::NAN));
    if !settings.json {
        printer::line(&format!("{tokens:.2} tokens per step, {speedup:.2} times as fast as plain decoding"));
    }
    Ok(tokens)
}

/// What is said at the end.
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
    printer::line(&format!("\nrun folder {run} (metrics.jsonl, plots/*.svg); {seconds:.0} s in all"));
    printer::line(&format!("gorgon chat --model {} --heads {run}", args.model));
}
