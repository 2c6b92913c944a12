//! `gorgon dev sweep`: right answers, rejections and speed of lossy rules over a range of α.

use crate::args;
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::sweep::{Point, points};
use gorgon_core::dist::Transform;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::sweep::{Options, Setup, plots};
use gorgon_workflows::{files, load};
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &args::Sweep, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = options(args)?;
    let setup = Setup::new(&options, settings)?;
    if let Some(path) = &args.out {
        load::check_output(path)?;
    }
    let answers = setup.answers(&options, settings)?;
    let points = points(&setup.subjects, &answers);
    if let Some(folder) = &args.plots {
        plots(folder, &points)?;
        settings.console.say(format!("plots in {}", folder.display()));
    }
    let document = setup.document(&options, &points);
    let mut whole = document.clone();
    whole["answers"] = json!(answers);
    files::store_rows(args.out.as_deref(), &whole, settings)?;
    match settings.json {
        true => printer::document(&document.to_string()),
        false => print(&setup, args, &points),
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &args::Sweep) -> Result<Options, Failure> {
    Ok(Options {
        alphas: args.range.alphas.clone(),
        model: args.model.clone(),
        drafter: args.draft.choice(),
        tree: args.draft.tree.clone(),
        prompts: args.prompts.clone(),
        limit: args.limit as usize,
        max_new_tokens: args.max_new_tokens as usize,
        families: args.accept.clone(),
        transform: Transform::new(args.temperature, args.top_k, args.top_p)?,
        ignore_eos: args.ignore_eos,
        rounds: args.rounds as usize,
    })
}

fn print(setup: &Setup, args: &args::Sweep, points: &[Point]) {
    let texts = ["rule", "kind"].map(Column::text);
    let numbers = ["T", "alpha", "right", "rejected", "tokens/step", "tokens/s", "speed-up"].map(Column::number);
    let mut table = Table::new(texts.into_iter().chain(numbers));
    let share = |x: f64| format!("{:.1} %", 100.0 * x);
    for p in points {
        table.row([
            p.rule.clone(),
            if p.lossless { "lossless" } else { "lossy" }.into(),
            p.temperature.to_string(),
            p.alpha.map_or_else(|| "-".into(), |alpha| alpha.to_string()),
            share(p.quality),
            p.rejection_rate.map_or_else(|| "-".into(), share),
            format!("{:.2}", p.tokens_per_step),
            format!("{:.1}", p.tokens_per_second),
            p.speedup.map_or_else(|| "-".into(), |x| format!("{x:.2}")),
        ]);
    }
    match args.markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
    printer::line(&format!(
        "{} with tree {}; right: {} held-out prompts whose answers can be checked, {} times; rejected: share of the \
             places with drafts at which none was accepted; lossy rules do not keep the model's distribution",
        setup.drafting.name(),
        setup.drafting.tree_name,
        setup.prompts(),
        args.rounds
    ));
}
