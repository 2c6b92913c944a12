//! Models and heads in larger bodies, with the same logits.

mod body;
mod heads;
mod matrix;
mod sizes;

pub use self::body::described;

use crate::failure::Failure;
use crate::files;
use gorgon_draft::folder::HeadsFolder;
use gorgon_model::config::ModelConfig;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Parameters of a body whose weights no processor's cache holds.
pub const PARAMETERS: u128 = 110_000_000;

/// A grown model with its heads.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The model's folder.
    pub model: PathBuf,
    /// The heads' folder.
    pub heads: PathBuf,
    /// The model's parameters.
    pub parameters: u128,
}

/// Reason why a model is not grown; `None` if it can be.
///
/// # Errors
/// When its config cannot be read.
pub fn obstacle(model: &Path, parameters: u128) -> Result<Option<String>, Failure> {
    Ok(sizes::grown(&ModelConfig::read(model)?, parameters).err())
}

/// Writes a model and its Medusa heads in a body of some `parameters` parameters: the folders `model` and `heads` in
/// `out`, which appears whole and replaces what an earlier call wrote there.
///
/// # Errors
/// When the model or the heads cannot be read or grown, `out` holds something else, or it cannot be written.
pub fn write(model: &Path, heads: &HeadsFolder, parameters: u128, out: &Path) -> Result<Grown, Failure> {
    let written_before = is_grown(out);
    if !written_before {
        files::check_empty(out)?;
    }
    let staged = files::staging(out)?;
    let make = |name: &str| {
        let path = staged.path().join(name);
        std::fs::create_dir(&path).map_err(|error| Failure::io(&path, &error)).map(|()| path)
    };
    let parameters = body::write(model, parameters, &make("model")?)?;
    let grown = Grown { model: out.join("model"), heads: out.join("heads"), parameters };
    heads::write(heads, &grown.model.display().to_string(), &make("heads")?)?;
    if written_before {
        std::fs::remove_dir_all(out).map_err(|error| Failure::io(out, &error))?;
    }
    files::publish(staged, out)?;
    Ok(grown)
}

/// Whether a folder holds what [`write`] wrote, and nothing else may be lost with it.
fn is_grown(out: &Path) -> bool {
    let config = gorgon_draft::folder::config(&out.join("model")).ok().flatten();
    config.is_some_and(|config| config.get(body::NOTE).is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests;
