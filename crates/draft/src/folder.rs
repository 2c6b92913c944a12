//! Folders of draft heads.

mod error;

pub use error::HeadsError;

use crate::format::{self, Detected, EagleSpec, HeadSpec, LmHeads, MedusaSpec, TensorInfo};
use crate::pytorch;
use gorgon_model::layout;
use gorgon_model::weights::{Checkpoint, WeightsError};
use gorgon_runs::file;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a folder of heads holds.
#[derive(Debug)]
pub struct HeadsFolder {
    /// The folder.
    pub path: PathBuf,
    /// The weights.
    pub checkpoint: Checkpoint,
    /// What they are.
    pub detected: Detected,
}

/// The largest `config.json` that is read.
const MAX_CONFIG: u64 = 16 << 20;
/// Where a training run puts its finished heads.
const FINISHED: &str = "heads";

impl HeadsFolder {
    /// Opens a folder of heads, or the run folder of a training that has finished, and recognises them. Other
    /// safetensors files beside the weights are ignored.
    ///
    /// # Errors
    /// When there are no weights, they are no draft heads, or they contradict their format or config.
    pub fn open(dir: &Path) -> Result<Self, HeadsError> {
        let finished = dir.join(FINISHED);
        let dir = if finished.is_dir() { &finished } else { dir };
        let wrong = |reason: String| HeadsError::Format { path: dir.into(), reason };
        let checkpoint = open_weights(dir)?.ok_or_else(|| wrong("no file with draft heads is here".into()))?;
        let config = config(dir)?;
        let detected = format::detect(&tensors(&checkpoint), config.as_ref()).map_err(|e| wrong(e.to_string()))?;
        if let Some(problem) = detected.problems.first() {
            let more = detected.problems.len() - 1;
            let rest = if more > 0 { format!(" (and {more} more; see gorgon inspect)") } else { String::new() };
            return Err(wrong(format!("{} heads that would load wrongly: {problem}{rest}", detected.format)));
        }
        Ok(Self { path: dir.into(), checkpoint, detected })
    }

    /// Inputs and outputs of an LM head that the file holds for all its heads together, and that may be asked for
    /// likeliest tokens. The target's serves where there is none; those of single heads compute all logits.
    pub fn shared_lm_head(&self) -> Option<(usize, usize)> {
        let name = match &self.detected.facts {
            HeadSpec::Medusa(MedusaSpec { lm_heads: LmHeads::Shared { tensor }, .. }) => tensor,
            HeadSpec::Eagle(EagleSpec { draft_vocab_size: Some(_), .. }) => layout::LM_HEAD,
            _ => return None,
        };
        match self.checkpoint.entries().get(name)?.shape.as_slice() {
            [outputs, inputs] => Some((*inputs, *outputs)),
            _ => None,
        }
    }
}

/// The tensors of a file, as its header lists them.
pub fn tensors(checkpoint: &Checkpoint) -> Vec<TensorInfo> {
    let entries = checkpoint.entries().iter();
    let tensor = |(name, entry): (&String, &gorgon_model::weights::Entry)| TensorInfo {
        name: name.clone(),
        shape: entry.shape.clone(),
        dtype: format!("{:?}", entry.dtype),
    };
    entries.map(tensor).collect()
}

/// The `config.json` of a folder, if there is one.
///
/// # Errors
/// When it cannot be read or is no JSON.
pub fn config(dir: &Path) -> Result<Option<Value>, HeadsError> {
    let path = dir.join("config.json");
    let wrong = |reason: String| HeadsError::Config { path: path.clone(), reason };
    match file::read(&path, MAX_CONFIG) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
    }
}

/// The weights of a heads folder: `model.safetensors` or its shards, else the only file of tensors there is, a PyTorch
/// file last; `None` without any.
///
/// # Errors
/// When the folder or a file cannot be read.
pub fn open_weights(dir: &Path) -> Result<Option<Checkpoint>, HeadsError> {
    match Checkpoint::open(dir) {
        Ok(checkpoint) => return Ok(Some(checkpoint)),
        Err(WeightsError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let unread = |error: std::io::Error| HeadsError::Format { path: dir.into(), reason: error.to_string() };
    let mut every: Vec<PathBuf> = dir.read_dir().map_err(unread)?.flatten().map(|file| file.path()).collect();
    every.sort();
    let mut files = every.clone();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    // Files of other kinds (expected values, optimizer states) may lie beside the weights; the heads' own names win.
    let named =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("lm_head.safetensors"));
    let chosen = files.iter().find(named).or(if files.len() == 1 { files.first() } else { None });
    match chosen {
        Some(path) => Ok(Some(Checkpoint::open_files(dir, std::slice::from_ref(path))?)),
        None if files.is_empty() => pytorch::find(&every).map(|path| pytorch::open(dir, path)).transpose(),
        None => Ok(None),
    }
}
