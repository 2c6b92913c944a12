//! From names on the command line to loaded models.

pub use crate::files::{check_output, check_writable};

use crate::console::{Bar, BarStyle, Console};
use crate::failure::Failure;
use crate::fitting::FITTED_MODEL;
use crate::settings::Settings;
use crate::units::bytes;
use crate::{absent, not_a_model, not_heads, runs};
use gorgon_draft::folder::HeadsFolder;
use gorgon_hub::{self as hub, DataSet, HubError, HubOptions, Repo};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::device::{Compute, DraftWeights, IntegerWeights, Weights};
use gorgon_model::stages;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::RunView;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// The folder of `--model`: a folder, a GGUF file, or a repo that is brought into the cache.
///
/// # Errors
/// When there is no such folder or repo.
pub fn folder(model: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    not_a_model::check(Path::new(model))?;
    let options = hub_options(settings)?;
    if let Some(failure) = not_a_model::missing(Path::new(model)) {
        return cached(model, options).ok_or(failure);
    }
    let mut bars = Bars { console: &settings.console, current: None };
    hub::resolve(model, &options, &mut |progress| bars.show(progress)).map_err(|error| match error {
        HubError::Transfer { .. } => hub_failure(error).hint(asked(model)),
        HubError::NotFound(_) => named(Path::new(model), error),
        error => hub_failure(error),
    })
}

/// The folder of a model in the cache, whose repository may be called like a folder here.
fn cached(model: &str, options: HubOptions) -> Option<PathBuf> {
    let offline = HubOptions { offline: true, ..options };
    hub::resolve(model, &offline, &mut |_| ()).ok()
}

/// The failure for a name that is neither that of a folder nor one on the hub.
fn named(path: &Path, error: HubError) -> Failure {
    let failure = hub_failure(error);
    match not_a_model::suggestion(path) {
        Some(suggestion) => failure.hint(suggestion),
        None => failure,
    }
}

/// The reason why the hub was asked for a model.
fn asked(model: &str) -> String {
    let here = std::env::current_dir().map_or_else(|_| "the current folder".into(), |path| path.display().to_string());
    format!("{model} is no folder in {here}, so the hub was asked; --offline asks only the cache")
}

/// As [`folder`], of a model without an encoder: all that `what` can use.
///
/// # Errors
/// As of [`folder`], and when the model is an encoder-decoder one.
pub fn decoder_only(model: &str, what: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    let dir = folder(model, settings)?;
    // A config that cannot be read is reported by what reads it.
    match ModelConfig::read(&dir) {
        Ok(config) => refuse_encoder(&dir, &config, what).map(|()| dir),
        Err(_) => Ok(dir),
    }
}

/// Fails if a model has an encoder, which `what` cannot use.
///
/// # Errors
/// When it has one.
pub fn refuse_encoder(dir: &Path, config: &ModelConfig, what: &str) -> Result<(), Failure> {
    if config.encoder.is_none() {
        return Ok(());
    }
    let (dir, kind) = (dir.display(), config.architecture.model_type());
    let message = format!("{dir}: an encoder-decoder model ({kind}); {what} takes decoder-only models");
    Err(Failure::input(message)
        .hint("generate, logits, inspect, bench and verify take it, with a draft model or lookup"))
}

/// The heads of `--heads`: a folder, a file, or the run folder of a training. Of a run that has not finished, its
/// newest checkpoint serves, with a notice.
///
/// # Errors
/// When there are no heads, or they would load wrongly.
pub fn heads(path: &Path, console: &Console) -> Result<HeadsFolder, Failure> {
    absent::check(path, "file or folder")?;
    let draft_model = path.join(FITTED_MODEL);
    if runs::is_run(path) && draft_model.is_dir() {
        let message = format!("{}: this run fitted a draft model, and has no heads", path.display());
        return Err(Failure::input(message).hint(format!("name it with --drafter model:{}", draft_model.display())));
    }
    let folder = HeadsFolder::open(path).map_err(|error| not_heads::failure(path, error))?;
    if let Some(step) = folder.step {
        let finished = RunView::open(path).is_ok_and(|run| run.results().is_file());
        let why = if finished { "the folder heads is gone" } else { "this run has not finished" };
        let shown = path.display();
        console.say(format!("note: {shown}: {why}: its heads are those of its newest checkpoint, step {step}"));
    }
    Ok(folder)
}

/// The folder of the heads that `--heads` names: itself, or that of a repo which is brought into the cache. A path
/// that does not exist stays as it is if it is no repo's name, or meant as one here: whoever opens it says so.
///
/// # Errors
/// When the repo is not there or cannot be brought.
pub fn heads_path(heads: &Path, settings: &Settings) -> Result<PathBuf, Failure> {
    let is_path = heads.exists() || not_a_model::missing(heads).is_some();
    let Some(repo) = heads.to_str().filter(|_| !is_path).and_then(|name| Repo::parse(name).ok()) else {
        return Ok(heads.into());
    };
    let mut bars = Bars { console: &settings.console, current: None };
    hub::heads(&repo, &hub_options(settings)?, &mut |progress| bars.show(progress)).map_err(hub_failure)
}

/// The folder of the newest commit of a repo, brought into the cache. A model that lies here is its own folder.
///
/// # Errors
/// When the name is none of a repo or of a model here, or it cannot be brought.
pub fn newest(repo: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    let (options, path) = (hub_options(settings)?, Path::new(repo));
    if path.exists() {
        let here = folder(repo, settings)?;
        settings.console.say(format!("note: {repo} is here already: nothing was fetched"));
        return Ok(here);
    }
    if options.offline {
        return folder(repo, settings);
    }
    if let Some(failure) = not_a_model::missing(path)
        && cached(repo, options.clone()).is_none()
    {
        return Err(failure);
    }
    let parsed = Repo::parse(repo).map_err(|error| named(path, error.into()))?;
    let mut bars = Bars { console: &settings.console, current: None };
    hub::fetch(&parsed, &options, &mut |progress| bars.show(progress)).map_err(hub_failure)
}

/// The data set `datasets/owner/name[@revision][/folder-or-file]`, whose files are not downloaded yet.
///
/// # Errors
/// When the name is none of a data set, or its files cannot be listed.
pub fn dataset(name: &str, settings: &Settings) -> Result<DataSet, Failure> {
    DataSet::open(name, &hub_options(settings)?).map_err(hub_failure)
}

/// One file of a data set, brought into the cache.
///
/// # Errors
/// When it cannot be brought.
pub fn dataset_file(data_set: &DataSet, file: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    let mut bars = Bars { console: &settings.console, current: None };
    data_set.fetch(file, &mut |progress| bars.show(progress)).map_err(hub_failure)
}

/// The options of the hub, as environment and command line say.
pub(crate) fn hub_options(settings: &Settings) -> Result<HubOptions, Failure> {
    let mut options = HubOptions::from_env()?;
    options.offline |= settings.offline;
    Ok(options)
}

/// One progress bar per file of a download.
struct Bars<'a> {
    console: &'a Console,
    current: Option<(String, Bar)>,
}

impl Bars<'_> {
    fn show(&mut self, progress: &hub::Progress<'_>) {
        if self.current.as_ref().is_none_or(|(file, _)| file != progress.file) {
            let total = progress.file_total_bytes.unwrap_or_default();
            let bar = self.console.bar(BarStyle::Transfer, progress.file, total);
            self.current = Some((progress.file.to_owned(), bar));
        }
        if let Some((_, bar)) = &self.current {
            bar.set_position(progress.file_done_bytes);
        }
    }
}

/// The model in a folder, if there is memory for it and for a context of `tokens`.
///
/// # Errors
/// When the folder holds no model that this program can run, the context or the memory is too small, or the device is
/// not there.
pub fn decoder(dir: &Path, tokens: usize, settings: &Settings) -> Result<Arc<Decoder>, Failure> {
    let compute = settings.compute()?;
    let started = Instant::now();
    let config = ModelConfig::read(dir)?;
    check_context(context(&config, settings)?, tokens)?;
    check_activation_bits(dir, &config, compute.integers())?;
    let checkpoint = Checkpoint::open(dir)?.finite();
    checkpoint.check(&config)?;
    let left = check_memory(&config, &checkpoint, &compute, tokens)?;
    if compute.is_split() {
        let plan = memory_plan(&config, &checkpoint, &compute, tokens)?;
        settings.console.say_all(plan);
    }
    let spinner = settings.console.bar(BarStyle::Spinner, &format!("loading {}", dir.display()), 0);
    // Draft heads, and what else is loaded later, want memory too.
    compute.prefilter_budget().set(u64::try_from(left / 4).unwrap_or(u64::MAX));
    let decoder = Decoder::from_checkpoint(config, &checkpoint, &compute)?;
    drop(spinner);
    tracing::debug!(
        model = %dir.display(),
        weights = bytes(checkpoint.bytes() as u64),
        seconds = started.elapsed().as_secs_f64(),
        format = compute.precision(),
        device = %compute.choice(),
        cache_tokens = tokens,
        "model loaded"
    );
    Ok(Arc::new(decoder))
}

/// Fails if a number format is given for the inputs of integer weights, and no weights are integers.
fn check_activation_bits(dir: &Path, config: &ModelConfig, integers: IntegerWeights) -> Result<(), Failure> {
    let Some(bits) = integers.activation_bits else { return Ok(()) };
    let drafts = integers.draft_weights != DraftWeights::Stored;
    let are_stored = config.quantisation.is_some() || matches!(gorgon_gguf::find(dir), Ok(Some(_)));
    if integers.weights != Weights::Stored || drafts || are_stored {
        return Ok(());
    }
    let message = format!("--activation-bits {}: {} has no weights in integers", bits.number(), dir.display());
    Err(Failure::input(message).hint("--weights int8 rounds them"))
}

/// The folder of a draft model: the one that is named, or what a training left in it.
pub fn fitted_model(dir: &Path) -> PathBuf {
    let finished = dir.join(FITTED_MODEL);
    if finished.is_dir() { finished } else { dir.to_path_buf() }
}

/// A draft model, on the device and in the number format of the backbone that is loaded, if there is memory for it.
///
/// # Errors
/// When the folder holds no model that this program can run, or the memory is too small.
pub fn draft_model(dir: &Path, loaded: &Decoder) -> Result<Arc<Decoder>, Failure> {
    let config = ModelConfig::read(dir)?;
    let checkpoint = Checkpoint::open(dir)?;
    checkpoint.check(&config)?;
    let tokens = config.max_positions.min(loaded.config().max_positions).min(DRAFT_MODEL_TOKENS);
    let compute = loaded.compute().for_draft_model();
    check_memory(&config, &checkpoint, &compute, tokens)?;
    Ok(Arc::new(Decoder::from_checkpoint(config, &checkpoint, &compute)?))
}

/// Tokens of context that a second model is given memory for to begin with.
const DRAFT_MODEL_TOKENS: usize = 4096;

/// Positions that a request may use: the model's context, or less where `--context` says so.
///
/// # Errors
/// When `--context` asks for more than the model has.
pub fn context(config: &ModelConfig, settings: &Settings) -> Result<usize, Failure> {
    match settings.context {
        None => Ok(config.max_positions),
        Some(asked) if asked <= config.max_positions => Ok(asked),
        Some(asked) => {
            let message = format!("--context {asked}: the model has {} positions", config.max_positions);
            Err(Failure::input(message).hint("leave it out, or ask for fewer"))
        }
    }
}

/// Fails when a prompt cannot fit.
///
/// # Errors
/// When it has more tokens than the context.
pub fn check_context(context: usize, prompt: usize) -> Result<(), Failure> {
    if prompt <= context {
        return Ok(());
    }
    let message = format!("the prompt of {prompt} tokens does not fit the context of {context} tokens");
    Err(Failure::input(message).hint("shorten the prompt"))
}

/// Fails before the system does: an allocation that cannot be met ends the program without a word. Returns how many
/// bytes are left.
fn check_memory(
    config: &ModelConfig,
    checkpoint: &Checkpoint,
    compute: &Compute,
    tokens: usize,
) -> Result<u128, Failure> {
    let weights = checkpoint.loaded_bytes(compute) as u128;
    let cache = KvCache::bytes(config, compute, tokens);
    let Some(available) = available_memory(compute) else { return Ok(u128::MAX) };
    if let Some(left) = u128::from(available).checked_sub(weights + cache) {
        return Ok(left);
    }
    let size = |n: u128| bytes(u64::try_from(n).unwrap_or(u64::MAX));
    Err(Failure::input(format!(
        "{} of weights and {} of cache for {tokens} tokens do not fit the {} of memory that are available on {}",
        size(weights),
        size(cache),
        bytes(available),
        compute.choice()
    ))
    .hint("ask for fewer new tokens, use --dtype f16 if the checkpoint is in f32, or free some memory"))
}

/// A line for each device of a split model: its layers, and what they take.
///
/// # Errors
/// When there are more devices than layers.
fn memory_plan(
    config: &ModelConfig,
    checkpoint: &Checkpoint,
    compute: &Compute,
    tokens: usize,
) -> Result<Vec<String>, ModelError> {
    let (weights, cache) = (checkpoint.loaded_bytes(compute) as u128, KvCache::bytes(config, compute, tokens));
    let size = |n: u128| bytes(u64::try_from(n).unwrap_or(u64::MAX));
    let line = |(number, share): (usize, stages::Share)| {
        let (first, last) = (share.layers.start, share.layers.end.saturating_sub(1));
        let (weights, cache) = (size(share.weights), size(share.cache));
        format!(
            "GPU {} of {}: layers {first} to {last}, {weights} of weights, {cache} of cache",
            number + 1,
            compute.choice()
        )
    };
    Ok(stages::shares(config, compute.devices().len(), weights, cache)?.into_iter().enumerate().map(line).collect())
}

/// Bytes of memory that a device can still give, where it says.
pub fn available_memory(compute: &Compute) -> Option<u64> {
    if compute.is_host() { free_memory() } else { compute.free_bytes() }
}

/// Bytes of the machine's memory that programs can still have, where the system says.
pub fn free_memory() -> Option<u64> {
    let refresh = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    System::new_with_specifics(refresh).ok().map(|system| system.available_memory())
}

/// Failure of a transfer or of a wrong name.
pub(crate) fn hub_failure(error: HubError) -> Failure {
    match error {
        HubError::Transfer { .. } | HubError::Corrupt { .. } | HubError::Io { .. } => Failure::from(error).of_machine(),
        error => error.into(),
    }
}
