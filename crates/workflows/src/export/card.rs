//! The model card of exported heads.

use super::format::ExportFormat;
use gorgon_draft::folder::HeadsFolder;
use serde_json::Value;
use std::path::Path;

/// The model card.
pub(super) fn card(run: &Path, to: ExportFormat, base: &str, folder: &HeadsFolder) -> String {
    let (by, tree) = match to {
        ExportFormat::Eagle | ExportFormat::Eagle3(_) => ("", "dynamic:60,5,10"),
        ExportFormat::Medusa(_) | ExportFormat::Merged | ExportFormat::Hydra => (" by head", "mc_sim_7b_63"),
    };
    let measured = evaluation(run).map_or(String::new(), |evaluation| {
        // One number for EAGLE, one per head for Medusa.
        let list = |key: &str| {
            let one = || vec![evaluation[key].clone()];
            let values = evaluation[key].as_array().cloned().unwrap_or_else(one);
            values.iter().map(|v| format!("{:.3}", v.as_f64().unwrap_or(f64::NAN))).collect::<Vec<_>>().join(", ")
        };
        let number = |key: &str| evaluation[key].as_f64().map_or("not measured".into(), |v| format!("{v:.2}"));
        format!(
            "\n## Measured on held-out text\n\n| | |\n|---|---|\n| top-1{by} | {} |\n| top-5{by} | {} |\n\
             | tokens per step, greedy, tree {tree} | {} |\n",
            list("top1"),
            list("top5"),
            number("tau")
        )
    });
    let facts: Vec<String> =
        folder.detected.facts.list().into_iter().map(|(name, value)| format!("| {name} | {value} |")).collect();
    format!(
        "---\nbase_model: {base}\ntags:\n- {}\n- speculative-decoding\n---\n\n# {} for {base}\n\n\
         Draft heads in the format `{}`, written by gorgon {}.\n\n| | |\n|---|---|\n{}\n{measured}\n## Loading\n\n{}",
        to.method(),
        to.noun(),
        to.name(),
        env!("CARGO_PKG_VERSION"),
        facts.join("\n"),
        to.loading()
    )
}

/// The best checkpoint's evaluation, if this is a run folder.
fn evaluation(run: &Path) -> Option<Value> {
    let records = gorgon_runs::metrics::read(&run.join("metrics.jsonl")).ok()?;
    let best = gorgon_runs::run_dir::RunView::open(run).ok()?.best().ok()??;
    let record = records.into_iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some())?;
    Some(record["evaluation"].clone())
}
