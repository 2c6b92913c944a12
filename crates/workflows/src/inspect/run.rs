//! A run folder.

use super::report::{Properties, Report};
use crate::failure::Failure;
use crate::files;
use crate::runs::{RunDetails, RunState};
use serde_json::{Value, json};
use std::path::Path;

/// Examines a run folder; the newest checkpoint is compared with its hashes.
pub(super) fn report(path: &Path) -> Result<Report, Failure> {
    let details = RunDetails::read(path)?;
    let summary = &details.summary;
    let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
    let number = |value: Option<f64>| value.map_or(Value::Null, Value::from);
    let mut facts = Properties::default();
    facts.add("state", summary.state.name());
    facts.add("method", text(&summary.method));
    facts.add("model", text(&summary.model));
    facts.add("data", text(&summary.data));
    facts.add_as("steps", summary.steps, summary.progress());
    facts.add("total_steps", json!(summary.total_steps));
    facts.add("best_step", json!(details.best_step));
    facts.add("held_out_loss", number(summary.held_out_loss));
    facts.add("tokens_per_step", number(summary.tokens_per_step));
    facts.add("checkpoints", details.checkpoints.len());
    facts.add("heads", json!(details.heads));
    facts.size(files::folder_bytes(path));
    let mut notes: Vec<String> = details.resume.iter().map(|command| format!("it is resumed by: {command}")).collect();
    if summary.state == RunState::Interrupted && !details.checkpoints.is_empty() {
        notes.push(format!("--heads {} takes its newest checkpoint", path.display()));
    }
    notes.push(format!("gorgon runs show {} has more", path.display()));
    Ok(Report { kind: "run", facts, notes, problems: details.summary.problems })
}
