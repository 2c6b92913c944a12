//! `gorgon export`: heads for other engines.

use crate::args::Export;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::Settings;
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::medusa::{Backbone, MedusaTarget, export};
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Export, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = HeadsFolder::open(&args.run)?;
    let config = folder::config(&folder.path)?.unwrap_or_default();
    let named = config.get("base_model_name_or_path").and_then(Value::as_str);
    let base =
        args.model.as_deref().or(named).ok_or_else(|| {
            Failure::input("the heads do not say which model they are for").hint("name it with --model")
        })?;
    let dir = load::folder(base, settings)?;
    let model = ModelConfig::read(&dir)?;
    let name = if model.tied_embeddings { layout::EMBEDDING } else { "lm_head.weight" };
    let lm_head = match args.to.needs_lm_head() {
        true => Some(Checkpoint::open(&dir)?.read_all(name)?),
        false => None,
    };
    if args.out.exists() && args.out.read_dir().map_or(true, |mut files| files.next().is_some()) {
        return Err(Failure::input(format!("{}: it is there already and not empty", args.out.display())));
    }
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::input(format!("{}: {e}", args.out.display())))?;
    let backbone = Backbone { lm_head: lm_head.as_deref(), vocab_size: model.vocab_size, name: base };
    export(&folder, &backbone, args.to, &args.out)?;
    let card = card(args, base, &folder);
    let path = args.out.join("README.md");
    gorgon_runs::atomic::write(&path, |file| file.write_all(card.as_bytes()))
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    // What was written is read back as a stranger would.
    let written = HeadsFolder::open(&args.out)?;
    if settings.json {
        let document = json!({"out": args.out.display().to_string(), "format": written.detected.format.name()});
        crate::printer::document(&document.to_string());
    }
    settings.talk.say(format!("{} in {}", written.detected.format.description(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The model card.
fn card(args: &Export, base: &str, folder: &HeadsFolder) -> String {
    let measured = evaluation(&args.run).map_or(String::new(), |evaluation| {
        let list = |key: &str| {
            let values = evaluation[key].as_array().cloned().unwrap_or_default();
            values.iter().map(|v| format!("{:.3}", v.as_f64().unwrap_or(f64::NAN))).collect::<Vec<_>>().join(", ")
        };
        let number = |key: &str| evaluation[key].as_f64().map_or("not measured".into(), |v| format!("{v:.2}"));
        format!(
            "\n## Measured on held-out text\n\n| | |\n|---|---|\n| top-1 by head | {} |\n| top-5 by head | {} |\n\
             | tokens per step, greedy, tree mc_sim_7b_63 | {} |\n",
            list("top1"),
            list("top5"),
            number("tau")
        )
    });
    let load = match args.to {
        MedusaTarget::V1 => {
            "The original loader and TensorRT-LLM read a `.pt` file:\n\n```python\nimport torch\nfrom safetensors.torch import \
             load_file\ntorch.save(load_file(\"medusa_lm_head.safetensors\"), \"medusa_lm_head.pt\")\n```\n"
        }
        MedusaTarget::V2 | MedusaTarget::Tgi => {
            "text-generation-inference: pass this folder as the model id; it finds the base model by \
             `base_model_name_or_path`.\n"
        }
        MedusaTarget::Vllm => "vLLM: pass this folder as the speculative model, with the method `medusa`.\n",
    };
    let facts: Vec<String> =
        folder.detected.facts.list().into_iter().map(|(name, value)| format!("| {name} | {value} |")).collect();
    format!(
        "---\nbase_model: {base}\ntags:\n- medusa\n- speculative-decoding\n---\n\n# Medusa heads for {base}\n\n\
         Draft heads in the format `{}`, written by gorgon {}.\n\n| | |\n|---|---|\n{}\n{measured}\n## Loading\n\n{load}",
        args.to.name(),
        env!("CARGO_PKG_VERSION"),
        facts.join("\n")
    )
}

/// The best checkpoint's evaluation, if this is a run folder.
fn evaluation(run: &Path) -> Option<Value> {
    let records = gorgon_runs::metrics::read(&run.join("metrics.jsonl")).ok()?;
    let best = gorgon_runs::run_dir::RunView::open(run).ok()?.best().ok()??;
    let record = records.into_iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some())?;
    Some(record["evaluation"].clone())
}
