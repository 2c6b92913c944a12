//! The model card of exported heads. It names no path of the machine that it was written on.

use super::format::ExportFormat;
use crate::bench_record::{BenchRecord, TaskRecord};
use crate::fitting::evaluation;
use crate::inspect::words;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::{HeadSpec, HeadsMethod, LmHeads};
use gorgon_draft::probes::default_tree;
use gorgon_runs::provenance::Build;
use gorgon_runs::run_dir::RunView;
use gorgon_runs::table::{Column, Table};
use serde_json::Value;
use std::path::Path;

/// The sources of a card.
pub(super) struct Card<'a> {
    /// The run folder, or the heads, that were exported.
    pub run: &'a Path,
    /// The format.
    pub to: ExportFormat,
    /// The target's hub id.
    pub base: Option<&'a str>,
    /// The heads as they were trained.
    pub source: &'a HeadsFolder,
    /// The heads as they were written.
    pub written: &'a HeadsFolder,
    /// The number format of the written weights; `None` where they keep those of the run.
    pub dtype: Option<&'a str>,
    /// The program.
    pub build: &'a Build,
}

impl Card<'_> {
    /// The card, in Markdown.
    pub(super) fn text(&self) -> String {
        let Self { to, base, build, .. } = *self;
        let front = base.map_or(String::new(), |base| format!("base_model: {base}\n"));
        let title = base.unwrap_or("a model that is not on the hub");
        let sections = [self.facts(), self.data(), self.held_out(), self.measured(), self.serving()];
        let sections: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
        format!(
            "---\n{front}tags:\n- {}\n- speculative-decoding\n---\n\n# {} for {title}\n\nDraft heads in the format `{}`, \
             written by gorgon {build}.\n\n{}",
            to.method(),
            to.noun(),
            to.name(),
            sections.join("\n")
        )
    }

    /// Facts about the written file.
    fn facts(&self) -> String {
        let mut table = Table::new([Column::text("property"), Column::text("value")]);
        for (name, value) in self.written.detected.spec.list() {
            let text = if name == "LM heads" { self.lm_heads() } else { words(&value) };
            table.row([name, &text]);
        }
        table.row(["number format", self.dtype.unwrap_or("as trained")]);
        table.to_markdown()
    }

    /// How many LM heads the file has, and whose they are.
    fn lm_heads(&self) -> String {
        let of = |heads: &HeadSpec| match heads {
            HeadSpec::Medusa(spec) => Some((spec.lm_heads.clone(), spec.heads)),
            HeadSpec::Hydra(spec) => Some((spec.lm_heads.clone(), spec.heads)),
            HeadSpec::Eagle(_) | HeadSpec::Mtp(_) | HeadSpec::Block(_) => None,
            HeadSpec::Kangaroo(_) | HeadSpec::Probes(_) => None,
        };
        let trained = of(&self.source.detected.spec).map(|(lm_heads, _)| lm_heads);
        let copied = trained == Some(LmHeads::Target);
        match of(&self.written.detected.spec) {
            Some((LmHeads::PerHead, heads)) if copied => {
                format!("{heads} in the file, each a copy of the base model's")
            }
            Some((LmHeads::PerHead, heads)) => format!("{heads} in the file, one per head, trained with the heads"),
            Some((LmHeads::Shared { .. }, _)) if copied => {
                "1 in the file for all heads, a copy of the base model's".into()
            }
            Some((LmHeads::Shared { .. }, _)) => "1 in the file for all heads".into(),
            Some((LmHeads::Target, _)) | None => "none in the file; the base model's serves".into(),
        }
    }

    /// The training data.
    fn data(&self) -> String {
        let text = std::fs::read_to_string(self.run.join("config.toml")).unwrap_or_default();
        let config: toml::Table = text.parse().unwrap_or_default();
        let Some(folder) = config.get("data").and_then(toml::Value::as_str) else { return String::new() };
        let report = std::fs::read(Path::new(folder).join("report.json")).unwrap_or_default();
        let report: Value = serde_json::from_slice(&report).unwrap_or_default();
        let name = Path::new(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let size = match (report["conversations"].as_u64(), report["assistant_tokens"].as_u64()) {
            (Some(conversations), Some(tokens)) => {
                format!(": {conversations} conversations with {tokens} tokens of the assistant")
            }
            _ => String::new(),
        };
        format!("## Data\n\nFitted to the dataset `{name}`{size}.\n")
    }

    /// Accuracies that the training measured on held-out text.
    fn held_out(&self) -> String {
        let Some(evaluation) = best_evaluation(self.run) else { return String::new() };
        let tree = match &self.written.detected.spec {
            HeadSpec::Probes(spec) => default_tree(spec.kind, spec.places).to_string(),
            _ => String::new(),
        };
        let (by, tree) = match self.written.detected.format.method() {
            HeadsMethod::Eagle => ("", "dynamic:60,5,10"),
            HeadsMethod::Mtp => (" by module", "dynamic:60,5,10"),
            HeadsMethod::Block => ("", "trellis:60"),
            HeadsMethod::Probes(_) => (" by place", tree.as_str()),
            HeadsMethod::Kangaroo => ("", "chain:6"),
            HeadsMethod::Medusa | HeadsMethod::Hydra => (" by head", "mc_sim_7b_63"),
        };
        let mut table = Table::new([Column::text("held-out text"), Column::text("measured")]);
        for (key, name) in [("top1", "top-1"), ("top5", "top-5")] {
            // One number for EAGLE, one per head for Medusa.
            let values = evaluation[key].as_array().cloned().unwrap_or_else(|| vec![evaluation[key].clone()]);
            let values: Vec<String> = values.iter().map(|v| format!("{:.3}", v.as_f64().unwrap_or(f64::NAN))).collect();
            table.row([format!("{name}{by}"), values.join(", ")]);
        }
        let tau = evaluation["tau"].as_f64().map_or("not measured".into(), |tau| format!("{tau:.2}"));
        table.row([format!("tokens per step (τ), greedy, tree `{tree}`"), tau]);
        format!("## Accuracy\n\n{}", table.to_markdown())
    }

    /// The measurement of `gorgon bench`, if it was run with these heads.
    fn measured(&self) -> String {
        let Some(record) = BenchRecord::read(&self.source.path) else { return String::new() };
        let columns = ["tokens/step (τ)", "speed-up", "plain, tokens/s", "drafted, tokens/s", "same text"];
        let mut table = Table::new(std::iter::once(Column::text("task")).chain(columns.map(Column::number)));
        let row = |task: &str, r: &TaskRecord| {
            [
                task.to_owned(),
                format!("{:.2}", r.tokens_per_step),
                format!("{:.2}", r.speedup),
                format!("{:.1}", r.plain_tokens_per_second),
                format!("{:.1}", r.drafted_tokens_per_second),
                format!("{}/{}", r.same_text, r.pairs),
            ]
        };
        record.tasks.iter().for_each(|(task, measured)| table.row(row(task, measured)));
        table.row(row("all", &record.all));
        let machine = &record.machine;
        let lossy = if record.lossless { "" } else { " (**lossy**: texts differ from the model's own)" };
        format!(
            "## Speed\n\nMeasured by `gorgon bench` on {} ({}, {} CPU threads, {}), prompts of `{}`, tree `{}`, acceptance rule \
             `{}`{lossy}, temperature {}, on {}.\n\n{}",
            machine.device,
            machine.cpu,
            machine.threads,
            machine.dtype,
            record.prompts,
            record.tree,
            record.accept,
            record.temperature,
            record.started,
            table.to_markdown()
        )
    }

    fn serving(&self) -> String {
        let heads = match &self.written.detected.spec {
            HeadSpec::Medusa(spec) => spec.heads,
            HeadSpec::Hydra(spec) => spec.heads,
            HeadSpec::Mtp(spec) => spec.modules,
            HeadSpec::Block(spec) => spec.slots.saturating_sub(1),
            HeadSpec::Probes(spec) => spec.places,
            HeadSpec::Eagle(_) | HeadSpec::Kangaroo(_) => 3,
        };
        let legend = match self.base {
            Some(_) => "`THIS_FOLDER` is this folder, or its id once it is on the hub.",
            None => "`THIS_FOLDER` is this folder, and `BASE_MODEL` the folder of its base model.",
        };
        let bias = matches!(&self.written.detected.spec, HeadSpec::Eagle(spec) if spec.fc_bias);
        let commands = self.to.serving(self.base.unwrap_or("BASE_MODEL"), heads, bias);
        format!("## Serving\n\n{legend}\n\n{commands}")
    }
}

/// The best checkpoint's evaluation, if this is a run folder.
fn best_evaluation(run: &Path) -> Option<Value> {
    let records = gorgon_runs::metrics::read(&run.join("metrics.jsonl")).ok()?;
    let best = RunView::open(run).ok()?.best().ok()??;
    evaluation(&records, best).cloned()
}
