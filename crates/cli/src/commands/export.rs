//! `gorgon export`: heads for other engines.

use crate::args::Export;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::Settings;
use gorgon_draft::eagle::{self, three};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::medusa::{self, Backbone, MedusaTarget};
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

/// What heads can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Medusa heads.
    Medusa(MedusaTarget),
    /// An EAGLE-1/2 draft layer under its published names.
    Eagle,
    /// An EAGLE-3 draft layer.
    Eagle3(three::Layout),
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "eagle" => Ok(Self::Eagle),
            "eagle3" => Ok(Self::Eagle3(three::Layout::Original)),
            "speculators" => Ok(Self::Eagle3(three::Layout::Speculators)),
            other => other.parse().map(Self::Medusa).map_err(|error| {
                format!("{error}, an EAGLE layer to eagle, an EAGLE-3 layer to eagle3 or speculators")
            }),
        }
    }
}

impl ExportFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Medusa(target) => target.name(),
            Self::Eagle => "eagle",
            Self::Eagle3(layout) => layout.name(),
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Medusa(_) => "medusa",
            Self::Eagle => "eagle",
            Self::Eagle3(_) => "eagle3",
        }
    }

    /// What was written, as a card's title has it.
    fn title(self) -> &'static str {
        match self {
            Self::Medusa(_) => "Medusa heads",
            Self::Eagle => "EAGLE draft layer",
            Self::Eagle3(_) => "EAGLE-3 draft layer",
        }
    }

    /// How to load what was written.
    fn loading(self) -> &'static str {
        match self {
            Self::Medusa(MedusaTarget::V1) => {
                "The original loader and TensorRT-LLM read a `.pt` file:\n\n```python\nimport torch\nfrom safetensors.torch import \
                 load_file\ntorch.save(load_file(\"medusa_lm_head.safetensors\"), \"medusa_lm_head.pt\")\n```\n"
            }
            Self::Medusa(MedusaTarget::V2 | MedusaTarget::Tgi) => {
                "text-generation-inference: pass this folder as the model id; it finds the base model by \
                 `base_model_name_or_path`.\n"
            }
            Self::Medusa(MedusaTarget::Vllm) => {
                "vLLM: pass this folder as the speculative model, with the method `medusa`.\n"
            }
            Self::Eagle => {
                "The original loader, SGLang and vLLM take this folder as the draft model, with the method `eagle`; embedding \
                 and LM head are the base model's.\n"
            }
            Self::Eagle3(three::Layout::Original) => {
                "The original loader, SGLang and vLLM take this folder as the draft model, with the method `eagle3`; the embedding \
                 is the base model's. The states that the layer reads are named twice in the config: \
                 `eagle_aux_hidden_state_layer_ids` lists the layers that they enter, as vLLM counts; inside `eagle_config` \
                 are the layers that they leave, one less each, as SGLang, SpecForge and ModelOpt count.\n"
            }
            Self::Eagle3(three::Layout::Speculators) => {
                "vLLM: `vllm serve` with this folder; it finds the base model by `speculators_config.verifier`. \
                 `eagle_aux_hidden_state_layer_ids` lists the layers that the states enter which the layer reads.\n"
            }
        }
    }
}

pub fn run(args: &Export, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = HeadsFolder::open(&args.run)?;
    let config = folder::config(&folder.path)?.unwrap_or_default();
    let verifier = config.pointer("/speculators_config/verifier/name_or_path");
    let named = config.get("base_model_name_or_path").or(verifier).and_then(Value::as_str);
    let base =
        args.model.as_deref().or(named).ok_or_else(|| {
            Failure::input("the heads do not say which model they are for").hint("name it with --model")
        })?;
    let dir = load::folder(base, settings)?;
    let model = ModelConfig::read(&dir)?;
    if args.out.exists() && args.out.read_dir().map_or(true, |mut files| files.next().is_some()) {
        return Err(Failure::input(format!("{}: it is there already and not empty", args.out.display())));
    }
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::input(format!("{}: {e}", args.out.display())))?;
    match args.to {
        ExportFormat::Eagle => eagle::export(&folder, base, &args.out)?,
        ExportFormat::Eagle3(layout) => eagle3(&folder, layout, &dir, &model, base, &args.out)?,
        ExportFormat::Medusa(target) => medusa(&folder, target, &dir, &model, base, &args.out)?,
    }
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

fn medusa(
    folder: &HeadsFolder,
    target: MedusaTarget,
    dir: &Path,
    model: &ModelConfig,
    base: &str,
    out: &Path,
) -> Result<(), Failure> {
    let name = if model.tied_embeddings { layout::EMBEDDING } else { "lm_head.weight" };
    let lm_head = match target.needs_lm_head() {
        true => Some(Checkpoint::open(dir)?.read_all(name)?),
        false => None,
    };
    let backbone = Backbone { lm_head: lm_head.as_deref(), vocab_size: model.vocab_size, name: base };
    Ok(medusa::export(folder, &backbone, target, out)?)
}

fn eagle3(
    folder: &HeadsFolder,
    layout: three::Layout,
    dir: &Path,
    model: &ModelConfig,
    base: &str,
    out: &Path,
) -> Result<(), Failure> {
    let embedding = match layout {
        three::Layout::Speculators => {
            let mut table = Checkpoint::open(dir)?.read_all(layout::EMBEDDING)?;
            table.iter_mut().for_each(|value| *value *= model.embedding_scale);
            Some(table)
        }
        three::Layout::Original => None,
    };
    let base = three::Base {
        name: base,
        class: model.architecture.class_name(),
        layers: model.layers,
        vocab_size: model.vocab_size,
        embedding: embedding.as_deref(),
    };
    Ok(three::export(folder, &base, layout, out)?)
}

/// The model card.
fn card(args: &Export, base: &str, folder: &HeadsFolder) -> String {
    let (by, tree) = match args.to {
        ExportFormat::Eagle | ExportFormat::Eagle3(_) => ("", "dynamic:60,5,10"),
        ExportFormat::Medusa(_) => (" by head", "mc_sim_7b_63"),
    };
    let measured = evaluation(&args.run).map_or(String::new(), |evaluation| {
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
        args.to.method(),
        args.to.title(),
        args.to.name(),
        env!("CARGO_PKG_VERSION"),
        facts.join("\n"),
        args.to.loading()
    )
}

/// The best checkpoint's evaluation, if this is a run folder.
fn evaluation(run: &Path) -> Option<Value> {
    let records = gorgon_runs::metrics::read(&run.join("metrics.jsonl")).ok()?;
    let best = gorgon_runs::run_dir::RunView::open(run).ok()?.best().ok()??;
    let record = records.into_iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some())?;
    Some(record["evaluation"].clone())
}
