//! Config files, with overrides from the command line.

mod annotated;
mod check;
mod document;
mod kind;
mod reference;
mod resume;
mod suggest;

pub use self::annotated::annotated;
pub use self::kind::{Config, Kind};
pub use self::reference::reference;
pub use self::resume::{Given, Resume};

use self::document::Document;
use crate::failure::Failure;
use gorgon_train::config::renamed;
use serde::Serialize;
use std::path::Path;

/// Reads a TOML file, applies `key.path=value` overrides in order, and checks every key.
///
/// # Errors
/// When the file cannot be read or is no TOML, an override is malformed, or a key is unknown, missing, of a wrong type
/// or out of range. Each message begins with the line of the file or the override that is wrong.
pub fn load<T: Config>(path: &Path, overrides: &[String]) -> Result<T, Failure> {
    let config = read(&Document::read(path, overrides)?)?;
    tracing::debug!(kind = %T::KIND, file = %path.display(), ?overrides, "config read");
    Ok(config)
}

/// A config that this program was built with.
///
/// # Errors
/// When it is none: a defect of this program.
pub fn embedded<T: Config>(text: &str) -> Result<T, Failure> {
    read(&Document::parse("a built-in config", text)?)
}

/// Checks a file of any kind, which its keys tell. Returns the kind.
///
/// # Errors
/// As of [`load`].
pub fn check(path: &Path, overrides: &[String]) -> Result<Kind, Failure> {
    let document = Document::read(path, overrides)?;
    let kind = Kind::of(&document.table);
    match kind {
        Kind::Train => read::<gorgon_train::config::TrainConfig>(&document).map(drop),
        Kind::Distill => read::<gorgon_data::config::DistillConfig>(&document).map(drop),
        Kind::Compare => read::<crate::compare::CompareConfig>(&document).map(drop),
        Kind::Pretrain => read::<gorgon_train::config::PretrainConfig>(&document).map(drop),
    }?;
    Ok(kind)
}

fn read<T: Config>(document: &Document) -> Result<T, Failure> {
    let at = |key: &str, message: &str| format!("{}: {message}", document.place(key));
    let old = renamed(|key| document.sets(key));
    if !old.is_empty() {
        return Err(Failure::lines(old.iter().map(|(old, new)| at(old, &format!("{old} was renamed to {new}")))));
    }
    let problems = check::problems(&document.table, &T::KIND.schema());
    let is_other = |kind: &Kind| *kind != T::KIND && check::problems(&document.table, &kind.schema()).is_empty();
    if let Some(other) = Kind::ALL.into_iter().find(is_other).filter(|_| !problems.is_empty()) {
        let message = format!("this is a config of gorgon {}, not of gorgon {}", other.verb(), T::KIND.verb());
        return Err(Failure::input(at("", &message)));
    }
    if !problems.is_empty() {
        return Err(Failure::lines(problems.iter().map(|problem| at(&problem.key, &problem.message))));
    }
    let config: T = document.table.clone().try_into().map_err(|error| Failure::input(at("", &format!("{error}"))))?;
    let wrong = |error: &gorgon_draft::settings::SettingsError| at(&error.key, &error.to_string());
    config.check().map_err(|errors| Failure::lines(errors.iter().map(wrong)))?;
    Ok(config)
}

/// A config as TOML: feeding it back gives the same config.
///
/// # Errors
/// When it cannot be written as TOML: a defect of this program.
pub fn to_toml(config: &impl Serialize) -> Result<String, Failure> {
    toml::to_string(config).map_err(Failure::run)
}

/// Writes the resolved config, so that the run can be repeated from it.
///
/// # Errors
/// When it cannot be written.
pub fn store(path: &Path, config: &impl Serialize) -> Result<(), Failure> {
    let text = to_toml(config)?;
    gorgon_runs::atomic::write(path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::run(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
