//! Heads for other engines.

mod card;
mod convert;
mod format;
mod serving;
mod upload;

pub use self::format::ExportFormat;
pub use self::upload::Upload;

use self::card::Card;
use crate::failure::Failure;
use crate::fitting::{HEADS, MERGED};
use crate::hub_id::hub_id;
use crate::not_a_model::base_model;
use crate::settings::Settings;
use crate::{files, load};
use gorgon_draft::eagle::{self, three};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::medusa::{self, Backbone};
use gorgon_draft::published::{Base, Destination};
use gorgon_draft::{block, hydra, kangaroo, mtp, probes};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::FloatFormat;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use std::path::{Path, PathBuf};

/// The heads to export, the format and the folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// The run folder of a training, a folder of heads, or a file of heads.
    pub run: PathBuf,
    /// The format.
    pub to: ExportFormat,
    /// The folder to write.
    pub out: PathBuf,
    /// The model that the heads are for, if they do not say or it has moved.
    pub model: Option<String>,
    /// Where the result is uploaded to, if it is.
    pub upload: Option<Upload>,
}

/// The result of an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The format as it is detected in the folder; weights that are no draft heads have none.
    pub format: Option<HeadsFormat>,
    /// The address of the upload, if there was one.
    pub address: Option<String>,
}

/// Writes heads in another engine's format, with a model card, and uploads them if that is asked for.
///
/// # Errors
/// When the heads or the model are wrong, the heads do not fit the format, the folder cannot be written, or the hub
/// does not take it.
pub fn execute(args: &Options, settings: &Settings) -> Result<Exported, Failure> {
    if args.upload.is_some() && args.to == ExportFormat::Safetensors {
        return Err(Failure::input("--push: --to safetensors writes no model card").hint("choose another format"));
    }
    let upload = args.upload.as_ref().map(|upload| upload.check(settings)).transpose()?;
    let format = write_folder(args, settings)?;
    let message = format!("Draft heads by gorgon {}, {}", settings.build.version, args.to.name());
    let address = upload.map(|upload| upload.push(&args.out, &message, settings)).transpose()?;
    Ok(Exported { format, address })
}

/// Writes the folder. Returns the format as it is detected in the result.
fn write_folder(args: &Options, settings: &Settings) -> Result<Option<HeadsFormat>, Failure> {
    let requested = settings.formats.dtype;
    if let (ExportFormat::Safetensors | ExportFormat::Merged, Some(dtype)) = (args.to, requested) {
        let (to, dtype) = (args.to.name(), dtype.name());
        return Err(Failure::input(format!(
            "--dtype {dtype}: --to {to} keeps the number formats of the weights as they are"
        )));
    }
    if args.to == ExportFormat::Safetensors {
        return convert::execute(&args.run, &args.out, settings);
    }
    if args.to == ExportFormat::Merged && !args.run.join(HEADS).is_dir() && args.run.join(MERGED).is_dir() {
        return whole_model(args, settings);
    }
    let folder = load::heads(&args.run, &settings.console)?;
    let args = &Options { to: args.to.for_heads(folder.detected.format.method()), ..args.clone() };
    let (named, dir) = model_of(args, &folder, settings)?;
    let model = ModelConfig::read(&dir)?;
    let id = hub_id(&named, &dir);
    files::check_empty(&args.out)?;
    let staged = files::staging(&args.out)?;
    let to = Destination { from: &folder.path, out: staged.path(), dtype: requested.unwrap_or(FloatFormat::Bf16) };
    write(args, &folder, (&dir, &model), id.as_deref().unwrap_or(&named), &to)?;
    // What was written is read back as a stranger would.
    let written = HeadsFolder::open(to.out)?;
    let dtype = (args.to != ExportFormat::Merged).then(|| to.dtype.name());
    let base = id.as_deref();
    let card =
        Card { run: &args.run, to: args.to, base, source: &folder, written: &written, dtype, build: &settings.build };
    let path = to.out.join("README.md");
    gorgon_runs::atomic::write(&path, |file| file.write_all(card.text().as_bytes()))
        .map_err(|error| Failure::io(&path, &error))?;
    files::publish(staged, &args.out)?;
    let written = HeadsFolder::open(&args.out)?.detected.format;
    settings.console.say(format!("{} in {}", written.description(), args.out.display()));
    Ok(Some(written))
}

/// The model that heads are for, by its name and its folder.
fn model_of(args: &Options, folder: &HeadsFolder, settings: &Settings) -> Result<(String, PathBuf), Failure> {
    let config = folder::config(&folder.path)?.unwrap_or_default();
    let named = args.model.clone().or_else(|| base_model(&config));
    let named = named
        .ok_or_else(|| Failure::input("the heads do not say which model they are for").hint("name it with --model"))?;
    let dir = load::decoder_only(&named, "export", settings).map_err(|failure| match args.model {
        Some(_) => failure,
        None => {
            let advice = failure.advice().map_or_else(String::new, |advice| format!("{advice}; "));
            failure.hint(format!("{advice}the heads name it as their model, and --model names another place"))
        }
    })?;
    Ok((named, dir))
}

/// Writes the heads in the requested format. The backbone is its folder and its config.
fn write(
    args: &Options,
    folder: &HeadsFolder,
    (dir, model): (&Path, &ModelConfig),
    base: &str,
    to: &Destination<'_>,
) -> Result<(), Failure> {
    let written = match args.to {
        ExportFormat::Eagle => eagle::export(folder, base, to).map_err(Failure::from),
        ExportFormat::Mtp => mtp::export(folder, base, to).map_err(Failure::from),
        ExportFormat::Kangaroo => kangaroo::export(folder, base, to).map_err(Failure::from),
        ExportFormat::DFlash(layout) => dflash(folder, layout, (dir, model), base, to),
        ExportFormat::Probes => probes::export(folder, base, to).map_err(Failure::from),
        ExportFormat::Eagle3(layout) => {
            let embedding = if layout == three::Layout::Speculators { Some(embedding(dir, model)?) } else { None };
            let tables = Tables { embedding, lm_head: None };
            three::export(folder, &tables.base(model, base), layout, to).map_err(Failure::from)
        }
        ExportFormat::Merged | ExportFormat::Safetensors => merged(&args.run, to.out),
        ExportFormat::Medusa(target) => {
            let lm_head = if target.needs_lm_head() { Some(lm_head(dir, model)?) } else { None };
            let backbone = Backbone { lm_head: lm_head.as_deref(), vocab_size: model.vocab_size, name: base };
            medusa::export(folder, &backbone, target, to).map_err(Failure::from)
        }
        ExportFormat::Hydra => {
            let lm_head = lm_head(dir, model)?;
            let backbone = Backbone { lm_head: Some(&lm_head), vocab_size: model.vocab_size, name: base };
            hydra::export(folder, &backbone, to).map_err(Failure::from)
        }
    };
    // The heads may be of another method.
    let method = folder.detected.format.method();
    let fits = args.to.method().starts_with(method.name());
    written.map_err(|failure| match fits {
        true => failure,
        false => failure.hint(format!("{method} heads go to {}", ExportFormat::of(method))),
    })
}

/// The backbone's LM head, `[V, d]`.
fn lm_head(dir: &Path, model: &ModelConfig) -> Result<Vec<f32>, Failure> {
    let name = if model.tied_embeddings { layout::EMBEDDING } else { "lm_head.weight" };
    Ok(Checkpoint::open(dir)?.read_all(name)?)
}

/// Copies a fitted backbone that has no heads.
fn whole_model(args: &Options, settings: &Settings) -> Result<Option<HeadsFormat>, Failure> {
    files::check_empty(&args.out)?;
    let staged = files::staging(&args.out)?;
    merged(&args.run, staged.path())?;
    files::publish(staged, &args.out)?;
    settings.console.say(format!("fitted backbone in {}", args.out.display()));
    Ok(None)
}

/// Copies the model that a run which fits the backbone left.
fn merged(run: &Path, out: &Path) -> Result<(), Failure> {
    let from = run.join("merged");
    let wrong = |path: &Path, error: std::io::Error| Failure::io(path, &error);
    if !from.is_dir() {
        let message = format!("{}: no merged model is here", run.display());
        return Err(
            Failure::input(message).hint("only runs with method = \"medusa-2\", \"space-sft\" or \"cllm\" have one")
        );
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

/// Writes a block drafter, with the backbone's tables where they are stored or compared with those of the drafter.
fn dflash(
    folder: &HeadsFolder,
    layout: block::Layout,
    (dir, model): (&Path, &ModelConfig),
    base: &str,
    to: &Destination<'_>,
) -> Result<(), Failure> {
    let spec = block::check_export(folder, model, layout)?;
    let needs_none = layout == block::Layout::ZLab && !spec.own_embedding && spec.draft_vocab_size.is_none();
    let tables = match needs_none {
        true => Tables::default(),
        false => Tables { embedding: Some(embedding(dir, model)?), lm_head: Some(scaled_lm_head(dir, model)?) },
    };
    Ok(block::export((folder, spec), &tables.base(model, base), layout, to)?)
}

/// Tables of a backbone that heads are stored with.
#[derive(Default)]
struct Tables {
    embedding: Option<Vec<f32>>,
    lm_head: Option<Vec<f32>>,
}

impl Tables {
    fn base<'a>(&'a self, model: &ModelConfig, name: &'a str) -> Base<'a> {
        Base {
            name,
            class: model.architecture.class_name(),
            layers: model.layers,
            vocab_size: model.vocab_size,
            embedding: self.embedding.as_deref(),
            lm_head: self.lm_head.as_deref(),
        }
    }
}

/// The backbone's embedding as its first layer reads it, `[V, d]`.
fn embedding(dir: &Path, model: &ModelConfig) -> Result<Vec<f32>, Failure> {
    let mut table = Checkpoint::open(dir)?.read_all(layout::EMBEDDING)?;
    table.iter_mut().for_each(|value| *value *= model.embedding_scale);
    Ok(table)
}

/// The backbone's LM head as it is applied to states, `[V, d]`.
fn scaled_lm_head(dir: &Path, model: &ModelConfig) -> Result<Vec<f32>, Failure> {
    let mut table = lm_head(dir, model)?;
    table.iter_mut().for_each(|value| *value *= model.head_scale);
    Ok(table)
}
