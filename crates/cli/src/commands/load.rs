//! From names on the command line to loaded models.

use crate::error::Failure;
use crate::progress;
use crate::settings::Settings;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::hub::{self, HubOptions, Repo};
use gorgon_model::taps::Taps;
use gorgon_model::target::Target;
use gorgon_model::weights::Checkpoint;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The folder of `--model`: a folder, or a repo that is brought into the cache.
///
/// # Errors
/// When there is no such folder or repo.
pub fn folder(model: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    let mut bars = Bars { shown: settings.progress, current: None };
    Ok(hub::resolve(model, &hub_options(settings)?, &mut |progress| bars.show(progress))?)
}

/// The folder of the newest commit of a repo, brought into the cache.
///
/// # Errors
/// When the name is none of a repo, or it cannot be brought.
pub fn newest(repo: &str, settings: &Settings) -> Result<PathBuf, Failure> {
    let options = hub_options(settings)?;
    let parsed = Repo::parse(repo)?;
    if options.offline {
        return folder(repo, settings);
    }
    let mut bars = Bars { shown: settings.progress, current: None };
    Ok(hub::fetch(&parsed, &options, &mut |progress| bars.show(progress))?)
}

fn hub_options(settings: &Settings) -> Result<HubOptions, Failure> {
    let mut options = HubOptions::from_env()?;
    options.offline |= settings.offline;
    Ok(options)
}

/// One progress bar per file of a download.
struct Bars {
    shown: bool,
    current: Option<(String, indicatif::ProgressBar)>,
}

impl Bars {
    fn show(&mut self, progress: &hub::Progress<'_>) {
        if self.current.as_ref().is_none_or(|(file, _)| file != progress.file) {
            let total = progress.file_total_bytes.unwrap_or_default();
            let bar = progress::transfer(self.shown, progress.file, total);
            self.current = Some((progress.file.to_owned(), bar));
        }
        if let Some((_, bar)) = &self.current {
            bar.set_position(progress.file_done_bytes);
        }
    }
}

/// The model in a folder, with a cache for `capacity` tokens.
///
/// # Errors
/// When the folder holds no model that this program can run, or the device is not there.
pub fn target(dir: &Path, capacity: usize, settings: &Settings) -> Result<Target, Failure> {
    let decoder = decoder(dir, settings)?;
    Ok(Target::new(decoder, capacity, Taps::none()))
}

/// The model in a folder.
///
/// # Errors
/// As [`target`].
pub fn decoder(dir: &Path, settings: &Settings) -> Result<Arc<Decoder>, Failure> {
    let compute = settings.compute()?;
    let started = Instant::now();
    let config = ModelConfig::read(dir)?;
    let checkpoint = Checkpoint::open(dir)?;
    let spinner = progress::spinner(settings.progress, format!("loading {}", dir.display()));
    let decoder = Decoder::from_checkpoint(config, &checkpoint, &compute)?;
    spinner.finish_and_clear();
    let bytes = checkpoint.bytes() as u64;
    settings.talk.detail(format!(
        "{}: {} loaded in {:.2} s as {} on {}",
        dir.display(),
        crate::printer::bytes(bytes),
        started.elapsed().as_secs_f64(),
        compute.format().name(),
        compute.choice()
    ));
    Ok(Arc::new(decoder))
}

/// Fails early when a result could not be written in the end.
///
/// # Errors
/// When the folder of `path` does not exist or `path` is a folder.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::input(format!("{}: the folder {} does not exist", path.display(), folder.display())));
    }
    if path.is_dir() {
        return Err(Failure::input(format!("{}: is a folder; a file name is expected", path.display())));
    }
    Ok(())
}
