//! `gorgon dev replay`: drafters that read tokens alone, on recorded answers.

use crate::args::Replay;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::replaying::{Replayed, run as replay};
use gorgon_workflows::{files, load};
use serde_json::{Value, json};
use std::process::ExitCode;

pub fn run(args: &Replay, settings: &Settings) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.out {
        load::check_output(path)?;
    }
    let replayed = replay(&args.options(), settings)?;
    let document = json!({
        "model": args.model, "seed": settings.seed, "limit": args.limit, "max_new_tokens": args.max_new_tokens,
        "rows": replayed.rows, "step_times": replayed.step_times,
    });
    let mut whole = document.clone();
    whole["answers"] = replayed
        .answers
        .iter()
        .map(|(drafter, replay)| {
            let mut row = json!(replay);
            row["drafter"] = json!(drafter);
            row
        })
        .collect::<Value>();
    files::store_rows(args.out.as_deref(), &whole, settings)?;
    match settings.json {
        true => printer::document(&document.to_string()),
        false => print(&replayed, args.markdown),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(replayed: &Replayed, markdown: bool) {
    let texts = ["drafter", "tree", "category"].map(Column::text);
    let numbers = ["answers", "tokens", "tokens/step", "nodes/step", "drafting"].map(Column::number);
    let speed = replayed.step_times.as_ref().map(|_| Column::number("speed"));
    let mut table = Table::new(texts.into_iter().chain(numbers).chain(speed));
    for row in &replayed.rows {
        let summary = &row.summary;
        let cells = [
            row.drafter.clone(),
            row.tree.clone(),
            row.category.clone(),
            summary.answers.to_string(),
            summary.tokens.to_string(),
            format!("{:.2}", summary.tokens_per_step),
            format!("{:.1}", summary.nodes_per_step),
            format!("{:.1} µs", 1e6 * summary.draft_seconds_per_step),
        ];
        table.row(cells.into_iter().chain(summary.speedup.map(|speedup| format!("{speedup:.2}"))));
    }
    match markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
    printer::line("recorded answers as greedy text; drafting: time per step that the drafter takes");
    if replayed.step_times.is_some() {
        printer::line("speed: over plain decoding, by measured times of passes and of drafting");
    }
}
