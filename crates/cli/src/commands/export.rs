//! `gorgon export`: heads for other engines.

use crate::args::Export;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::Settings;
use gorgon_draft::eagle::{self, three};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::hydra;
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
    /// A Medusa-2 model: backbone, adapter and heads in one.
    Merged,
    /// Hydra or Hydra++ heads under their published names.
    Hydra,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "eagle" => Ok(Self::Eagle),
            "eagle3" => Ok(Self::Eagle3(three::Layout::Original)),
            "speculators" => Ok(Self::Eagle3(three::Layout::Speculators)),
            "merged" => Ok(Self::Merged),
            "hydra" => Ok(Self::Hydra),
            other => {
                let more = "an EAGLE layer to eagle, an EAGLE-3 layer to eagle3 or speculators, Hydra heads to hydra, \
                            a Medusa-2 run to merged";
                other.parse().map(Self::Medusa).map_err(|error| format!("{error}, {more}"))
            }
        }
    }
}

impl ExportFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Medusa(target) => target.name(),
            Self::Eagle => "eagle",
            Self::Eagle3(layout) => layout.name(),
            Self::Merged => "merged",
            Self::Hydra => "hydra",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Medusa(_) | Self::Merged => "medusa",
            Self::Eagle => "eagle",
            Self::Eagle3(_) => "eagle3",
            Self::Hydra => "hydra",
        }
    }

    /// What was written, as a card's title has it.
    fn noun(self) -> &'static str {
        match self {
            Self::Medusa(_) => "Medusa heads",
            Self::Eagle => "EAGLE draft layer",
            Self::Eagle3(_) => "EAGLE-3 draft layer",
            Self::Hydra => "Hydra heads",
            Self::Merged => "Medusa-2 model",
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
            Self::Merged => {
                "A whole model: the original Medusa code loads this folder; gorgon takes it as `--model` and as `--heads`.\n"
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
            Self::Hydra => {
                "The original loader reads a `.pt` file:\n\n```python\nimport torch\nfrom safetensors.torch import \
                 load_file\ntorch.save(load_file(\"hydra_lm_head.safetensors\"), \"hydra_lm_head.pt\")\n```\n"
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
    let staged = staging(&args.out)?;
    let out = staged.path();
    write(args, &folder, (&dir, &model), base, out)?;
    let card = card(args, base, &folder);
    let path = out.join("README.md");
    gorgon_runs::atomic::write(&path, |file| file.write_all(card.as_bytes()))
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    // What was written is read back as a stranger would.
    HeadsFolder::open(out)?;
    publish(staged, &args.out)?;
    let written = HeadsFolder::open(&args.out)?;
    if settings.json {
        let document = json!({"out": args.out.display().to_string(), "format": written.detected.format.name()});
        crate::printer::document(&document.to_string());
    }
    settings.talk.say(format!("{} in {}", written.detected.format.description(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes the heads in the format that was asked for. The backbone is its folder and its config.
fn write(
    args: &Export,
    folder: &HeadsFolder,
    (dir, model): (&Path, &ModelConfig),
    base: &str,
    out: &Path,
) -> Result<(), Failure> {
    match args.to {
        ExportFormat::Eagle => eagle::export(folder, base, out)?,
        ExportFormat::Eagle3(layout) => eagle3(folder, layout, dir, model, base, out)?,
        ExportFormat::Merged => merged(&args.run, out)?,
        ExportFormat::Medusa(target) => {
            let lm_head = if target.needs_lm_head() { Some(lm_head(dir, model)?) } else { None };
            let backbone = Backbone { lm_head: lm_head.as_deref(), vocab_size: model.vocab_size, name: base };
            medusa::export(folder, &backbone, target, out)?;
        }
        ExportFormat::Hydra => {
            let lm_head = lm_head(dir, model)?;
            let backbone = Backbone { lm_head: Some(&lm_head), vocab_size: model.vocab_size, name: base };
            hydra::export(folder, &backbone, out)?;
        }
    }
    Ok(())
}

/// A hidden folder beside the one to be written: that one appears when it is whole.
pub(super) fn staging(out: &Path) -> Result<tempfile::TempDir, Failure> {
    let failed = |e: std::io::Error| Failure::input(format!("{}: {e}", out.display()));
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    load::check_writable(out)?;
    std::fs::create_dir_all(parent).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gorgon-").suffix(".tmp");
    // What any new folder gets, less what the user's mask takes away.
    #[cfg(unix)]
    builder.permissions(<std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777));
    builder.tempdir_in(parent).map_err(failed)
}

/// Gives a finished folder its name.
pub(super) fn publish(staged: tempfile::TempDir, out: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::input(format!("{}: {e}", out.display()));
    // There is nothing in it: that was looked at.
    if out.is_dir() {
        std::fs::remove_dir(out).map_err(failed)?;
    }
    std::fs::rename(staged.path(), out).map_err(failed)?;
    let _ = staged.keep();
    // The name is durable once the folder around it is. Some systems cannot open folders.
    if let Some(Ok(parent)) = out.parent().map(std::fs::File::open) {
        let _ = parent.sync_all();
    }
    Ok(())
}

/// The backbone's LM head, `[V, d]`.
fn lm_head(dir: &Path, model: &ModelConfig) -> Result<Vec<f32>, Failure> {
    let name = if model.tied_embeddings { layout::EMBEDDING } else { "lm_head.weight" };
    Ok(Checkpoint::open(dir)?.read_all(name)?)
}

/// Copies the model that a Medusa-2 run left.
fn merged(run: &Path, out: &Path) -> Result<(), Failure> {
    let from = run.join("merged");
    let wrong = |path: &Path, error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
    if !from.is_dir() {
        let message = format!("{}: no merged model is here", run.display());
        return Err(Failure::input(message).hint("only runs with method = \"medusa-2\" have one"));
    }
    for entry in from.read_dir().map_err(|error| wrong(&from, error))? {
        let path = entry.map_err(|error| wrong(&from, error))?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        let mut source = std::fs::File::open(&path).map_err(|error| wrong(&path, error))?;
        gorgon_runs::atomic::write(&out.join(name), |file| std::io::copy(&mut source, file).map(|_| ()))
            .map_err(|error| wrong(out, error))?;
    }
    Ok(())
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
        ExportFormat::Medusa(_) | ExportFormat::Merged | ExportFormat::Hydra => (" by head", "mc_sim_7b_63"),
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
        args.to.noun(),
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
