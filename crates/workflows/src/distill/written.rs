//! The shards of a distillation, and the report of them.

use super::answering::Usage;
use super::job::{Job, metadata};
use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use crate::units::{count, of};
use gorgon_data::distill;
use gorgon_data::manifest::{self, REPORT};
use gorgon_data::shard::{self, Row};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Answers of the prompts.
#[derive(Default)]
pub(super) struct Answered {
    /// Rows with answers.
    pub rows: Vec<Row>,
    /// How many conversations have none, by reason.
    pub without: BTreeMap<String, usize>,
    pub usage: Usage,
}

impl Job {
    /// Writes the shards and a report of them, which is returned.
    pub(super) fn write(
        &self,
        folder: &Path,
        Answered { rows, without, usage }: &Answered,
        started: Instant,
        settings: &Settings,
    ) -> Result<Value, Failure> {
        check_masks(rows, without)?;
        let identity = self.identity()?;
        let written = write_shards(folder, rows, &identity)?;
        let usage = usage.with_disk(files::folder_bytes(folder));
        let tokens: usize = rows.iter().map(|row| row.example.ids.len()).sum();
        let labels: usize = rows.iter().map(|row| row.example.labels()).sum();
        let ends = |wanted: fn(&str) -> bool| rows.iter().flat_map(|row| &row.ends).filter(|end| wanted(end)).count();
        let cut = ends(|end| end.starts_with(distill::LENGTH));
        let retokenised = ends(|end| end.ends_with(distill::RETOKENISED));
        let report = json!({
            "conversations": rows.len(), "tokens": tokens, "assistant_tokens": labels, "answers_cut_off": cut,
            "answers_retokenised": retokenised,
            "conversations_without_answers": without, "shards": written,
            "files": self.gathered.reports.iter().map(|report| report.to_json()).collect::<Vec<_>>(),
            "cut_to_one_turn": self.gathered.cut_to_one_turn, "plan": usage.to_json(), "out": folder.display().to_string(),
        });
        files::write_json(&folder.join(REPORT), &report)?;
        settings.console.say(format!(
            "{}, {} tokens, {} of them the assistant's, {} cut off; {} in {} ({:.1} s)",
            of(rows.len(), "conversation"),
            count(tokens as u128),
            count(labels as u128),
            of(cut, "answer"),
            of(written, "shard"),
            folder.display(),
            started.elapsed().as_secs_f64()
        ));
        settings.console.say_all(usage.words());
        if retokenised > 0 {
            let line = format!("note: {retokenised} answers came without their token ids and were tokenised again");
            settings.console.say(line);
        }
        let without = without.iter().map(|(reason, n)| format!("warning: {n} conversations have no answer: {reason}"));
        settings.console.say_all(without);
        Ok(report)
    }
}

/// Writes the shards, and then what they are. Returns how many there are.
fn write_shards(folder: &Path, rows: &[Row], identity: &Value) -> Result<usize, Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::run(format!("{}: {error}", path.display()));
    let metadata = metadata(identity);
    let mut written = vec![];
    for (i, part) in rows.chunks(shard::ROWS_PER_SHARD).enumerate() {
        let path = folder.join(shard::file_name(i));
        shard::write(&path, part, &metadata).map_err(|error| failed(&path, error))?;
        written.push((shard::file_name(i), part.len()));
    }
    manifest::write(folder, &written).map_err(|error| failed(folder, error))?;
    Ok(written.len())
}

/// A conversation without a label would teach nothing, and says that something is wrong with the template or the data.
fn check_masks(rows: &[Row], without: &BTreeMap<String, usize>) -> Result<(), Failure> {
    if let Some(row) = rows.iter().find(|row| row.example.labels() == 0) {
        let message = format!("{} line {} ({}): its loss mask is empty", row.source, row.line, row.id);
        return Err(Failure::input(message).hint("look at it with gorgon distill --preview"));
    }
    if rows.is_empty() {
        let most = without.iter().max_by_key(|(_, count)| **count);
        let why = most.map(|(reason, count)| format!(" ({count} of them: {reason})")).unwrap_or_default();
        return Err(Failure::input(format!("no conversation has an answer{why}: there is nothing to train on")));
    }
    Ok(())
}
