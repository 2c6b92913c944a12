//! Heads for other engines.

mod card;
mod format;

pub use self::format::ExportFormat;

use self::card::card;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{files, load};
use gorgon_draft::eagle::{self, three};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::hydra;
use gorgon_draft::medusa::{self, Backbone};
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is exported, and to where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The run folder of a training, or a folder of heads.
    pub run: PathBuf,
    /// The format.
    pub to: ExportFormat,
    /// The folder to write.
    pub out: PathBuf,
    /// The model that the heads are for, if they do not say or it has moved.
    pub model: Option<String>,
}

/// Writes heads in another engine's format, with a model card. Returns the format as it is detected in the result.
///
/// # Errors
/// When the heads or the model are wrong, the heads do not fit the format, or the folder cannot be written.
pub fn execute(args: &Options, settings: &Settings) -> Result<HeadsFormat, Failure> {
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
    files::check_empty(&args.out)?;
    let staged = files::staging(&args.out)?;
    let out = staged.path();
    write(args, &folder, (&dir, &model), base, out)?;
    let card = card(&args.run, args.to, base, &folder);
    let path = out.join("README.md");
    gorgon_runs::atomic::write(&path, |file| file.write_all(card.as_bytes()))
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    // What was written is read back as a stranger would.
    HeadsFolder::open(out)?;
    files::publish(staged, &args.out)?;
    let written = HeadsFolder::open(&args.out)?.detected.format;
    settings.console.say(format!("{} in {}", written.description(), args.out.display()));
    Ok(written)
}

/// Writes the heads in the requested format. The backbone is its folder and its config.
fn write(
    args: &Options,
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
