//! Folders of draft heads.

mod error;

pub use error::HeadsError;

use crate::format::{self, Detected, EagleSpec, HeadSpec, HeadsFormat, LAYERS, LmHeads, MedusaSpec, TensorInfo};
use crate::ngram_table;
use crate::pytorch;
use gorgon_model::layout;
use gorgon_model::weights::{Checkpoint, WeightsError};
use gorgon_runs::file;
use gorgon_runs::run_dir::RunView;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Draft heads on disk.
#[derive(Debug)]
pub struct HeadsFolder {
    /// The folder; of a file of heads, the folder around it.
    pub path: PathBuf,
    /// The step of the checkpoint that the heads are from, where a run was named that has not finished.
    pub step: Option<u64>,
    /// The weights.
    pub checkpoint: Checkpoint,
    /// Their format and its spec.
    pub detected: Detected,
}

/// The largest `config.json` that is read.
const MAX_CONFIG: u64 = 16 << 20;
/// Where a training run puts its finished heads.
const FINISHED: &str = "heads";

impl HeadsFolder {
    /// Opens heads and recognises them. `path` is one of
    ///
    /// * a folder of heads, in which other safetensors files beside the weights are ignored;
    /// * a file of heads, `.safetensors` or PyTorch's `.pt`, `.pth` or `.bin`, with its `config.json` beside it;
    /// * the run folder of a training: its finished heads, or its newest whole checkpoint if it has not finished.
    ///
    /// # Errors
    /// When there are no weights, they are no draft heads, or they contradict their format or config.
    pub fn open(path: &Path) -> Result<Self, HeadsError> {
        let found = Self::examine(path)?;
        let Detected { format, problems, .. } = &found.detected;
        let Some(problem) = problems.first() else { return Ok(found) };
        let more = problems.len() - 1;
        let rest = if more > 0 { format!(" (and {more} more; see gorgon inspect)") } else { String::new() };
        let reason = format!("{format} heads that would load wrongly: {problem}{rest}");
        Err(HeadsError::Format { path: found.path, reason })
    }

    /// As [`Self::open`], and heads that contradict their format or config come with their problems.
    ///
    /// # Errors
    /// When there are no weights, or they are no draft heads.
    pub fn examine(path: &Path) -> Result<Self, HeadsError> {
        let Place { folder, file, step } = Place::of(path)?;
        let wrong = |reason: String| HeadsError::Format { path: path.into(), reason };
        let checkpoint = match &file {
            Some(file) if pytorch::is_named(file) => pytorch::open(&folder, file)?,
            Some(file) => Checkpoint::open_files(&folder, std::slice::from_ref(file))?,
            None => open_weights(&folder)?.ok_or_else(|| wrong("no file with draft heads is here".into()))?,
        };
        let config = config(&folder)?;
        let detected = format::detect(&tensors(&checkpoint), config.as_ref()).map_err(|e| wrong(e.to_string()))?;
        Ok(Self { path: folder, step, checkpoint, detected })
    }

    /// Inputs and outputs of an LM head that the file holds for all its heads together, and of which top-k tokens may
    /// be requested. The target's serves where there is none; those of single heads compute all logits.
    pub fn shared_lm_head(&self) -> Option<(usize, usize)> {
        let name = match &self.detected.spec {
            HeadSpec::Medusa(MedusaSpec { lm_heads: LmHeads::Shared { tensor }, .. }) => tensor,
            HeadSpec::Eagle(EagleSpec { draft_vocab_size: Some(_), .. }) => layout::LM_HEAD,
            HeadSpec::Medusa(MedusaSpec { lm_heads: LmHeads::PerHead | LmHeads::Target, .. })
            | HeadSpec::Eagle(EagleSpec { draft_vocab_size: None, .. })
            | HeadSpec::Hydra(_)
            | HeadSpec::Mtp(_)
            | HeadSpec::Block(_)
            | HeadSpec::Kangaroo(_)
            | HeadSpec::Probes(_) => return None,
        };
        match self.checkpoint.entries().get(name)?.shape.as_slice() {
            [outputs, inputs] => Some((*inputs, *outputs)),
            _ => None,
        }
    }
}

/// Where heads are.
struct Place {
    folder: PathBuf,
    /// The file, where it was named.
    file: Option<PathBuf>,
    step: Option<u64>,
}

impl Place {
    fn of(path: &Path) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: path.into(), reason };
        if path.is_file() {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return Ok(Self { folder: folder.into(), file: Some(path.into()), step: None });
        }
        let folder = |folder: PathBuf, step| Ok(Self { folder, file: None, step });
        let finished = path.join(FINISHED);
        if finished.is_dir() {
            return folder(finished, None);
        }
        let run = RunView::open(path).ok().filter(|run| run.metrics().is_file());
        let Some(run) = run else { return folder(path.into(), None) };
        // Newer ones may be damaged: a training resumes from the newest one that is whole, too.
        let steps = run.steps().map_err(|error| wrong(error.to_string()))?;
        match steps.into_iter().rev().find(|&step| run.open_step(step).is_ok()) {
            Some(step) => folder(run.step(step), Some(step)),
            None => Err(wrong("this run has not finished, and no whole checkpoint is in it yet".into())),
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
        Ok(bytes) => gorgon_runs::json::read(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
    }
}

/// Keys of a config that belong to a draft's decoder layers, wherever its writer puts them.
///
/// # Errors
/// When there is no config or it cannot be read.
pub(crate) fn layer_document(folder: &HeadsFolder) -> Result<Map<String, Value>, HeadsError> {
    let config = config(&folder.path)?;
    let nested = matches!(folder.detected.format, HeadsFormat::Eagle3Speculators | HeadsFormat::DFlashSpeculators);
    let layers = if nested { config.and_then(|mut config| config.as_object_mut()?.remove(LAYERS)) } else { config };
    match layers {
        Some(Value::Object(object)) => Ok(object),
        _ => {
            let reason = "it is missing, so that the number of attention heads is not known".into();
            Err(HeadsError::Config { path: folder.path.join("config.json"), reason })
        }
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
    let is_table = |path: &PathBuf| path.file_name().is_some_and(|name| name == ngram_table::FILE);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors") && !is_table(path));
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
