//! `gorgon dev synth`: the synthetic corpus, written out or used as an exam.

use crate::args::Synth;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::files;
use gorgon_workflows::synth::{self, Score, Selection};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

pub fn run(args: &Synth, settings: &Settings) -> Result<ExitCode, Failure> {
    if let Some(folder) = &args.folder {
        synth::write_card(folder, settings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Synth { dialogues, held_out, ref kind, .. } = *args;
    let dialogues = synth::dialogues(&Selection { dialogues, held_out, kind: kind.clone() }, settings.seed)?;
    if let Some(model) = &args.check {
        report(&synth::check(model, &dialogues, settings)?, settings);
        return Ok(ExitCode::SUCCESS);
    }
    let text = synth::jsonl(&dialogues, held_out);
    match &args.out {
        None if settings.json => {
            let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            printer::document(&json!({ "dialogues": lines.map_err(Failure::run)? }).to_string());
        }
        None => printer::piece(&text),
        Some(path) => {
            files::check_output(path)?;
            gorgon_runs::atomic::write(path, |file| file.write_all(text.as_bytes()))
                .map_err(|error| Failure::io(path, &error))?;
            match settings.json {
                true => printer::document(&json!({"dialogues": dialogues.len(), "file": path}).to_string()),
                false => settings.console.say(format!("{} dialogues in {}", dialogues.len(), path.display())),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn report(scores: &BTreeMap<&str, Score>, settings: &Settings) {
    let (right, checked) = scores.values().fold((0, 0), |sum, s| (sum.0 + s.right, sum.1 + s.checked));
    let share = |right: usize, checked: usize| right as f64 / checked.max(1) as f64;
    if settings.json {
        let kind = |(kind, s): (&&str, &Score)| {
            let wrong = s.first_wrong.as_ref().map(|(user, said)| json!({"user": user, "said": said}));
            let score =
                json!({"right": s.right, "checked": s.checked, "share": share(s.right, s.checked), "wrong": wrong});
            ((*kind).to_owned(), score)
        };
        let kinds: serde_json::Map<String, Value> = scores.iter().map(kind).collect();
        let document = json!({"right": right, "checked": checked, "share": share(right, checked), "kinds": kinds});
        printer::document(&document.to_string());
        return;
    }
    let mut table =
        Table::new([Column::text("kind"), Column::number("right"), Column::number("of"), Column::number("%")]);
    for (kind, s) in scores {
        let percent = format!("{:.1}", 100.0 * share(s.right, s.checked));
        table.row([(*kind).to_owned(), s.right.to_string(), s.checked.to_string(), percent]);
    }
    table.row(["all".into(), right.to_string(), checked.to_string(), format!("{:.1}", 100.0 * share(right, checked))]);
    printer::table(&table);
}
