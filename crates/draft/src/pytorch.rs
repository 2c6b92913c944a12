//! Weights in PyTorch files (`.pt`, `.pth`, `.bin`): a pickle, read without executing anything of it.

use crate::folder::HeadsError;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{self, Source};
use pytorch_reader::{DType, PytorchReader, Tensor};
use safetensors::Dtype;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Endings of PyTorch files.
const ENDINGS: [&str; 3] = ["pt", "pth", "bin"];

/// Whether a file is called as PyTorch's are.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known))
}

/// The PyTorch file of a folder: one that is called as heads are, or the only one there is.
pub fn find(files: &[PathBuf]) -> Option<&PathBuf> {
    let candidates: Vec<&PathBuf> = files.iter().filter(|path| is_named(path)).collect();
    let named = |path: &&&PathBuf| {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.ends_with("lm_head") || name == "pytorch_model"
    };
    match candidates.as_slice() {
        [only] => Some(only),
        several => several.iter().find(named).copied(),
    }
}

/// Opens the tensors of a PyTorch file of `dir`.
///
/// They are written out once, to a temporary file in the format that everything else reads, which is gone from its
/// folder when this returns and from the disk when the checkpoint is closed.
///
/// # Errors
/// When the file is no PyTorch file of plain tensors, or the temporary one cannot be written.
pub fn open(dir: &Path, path: &Path) -> Result<Checkpoint, HeadsError> {
    let folder = tempfile::tempdir().map_err(|error| wrong(path, &error))?;
    let copy = folder.path().join("model.safetensors");
    convert(path, &copy)?;
    Ok(Checkpoint::open_files(dir, &[copy])?)
}

/// Writes the tensors of a PyTorch file as safetensors, with their names and number formats.
///
/// # Errors
/// When the file is no PyTorch file of plain tensors, or `out` cannot be written.
pub fn convert(path: &Path, out: &Path) -> Result<(), HeadsError> {
    gorgon_runs::file::open(path).map_err(|error| wrong(path, &error))?;
    let reader = PytorchReader::new(path).map_err(|error| wrong(path, &error))?;
    let mut all: Vec<(&String, &Tensor)> = reader.tensors().iter().collect();
    all.sort_by_key(|(name, _)| *name);
    if all.is_empty() {
        return Err(HeadsError::Format { path: path.into(), reason: "no tensors are in it".into() });
    }
    let sources: Vec<Source<'_>> = all.into_iter().map(|(name, tensor)| source(name, tensor)).collect();
    tensors::write(out, &sources).map_err(|error| wrong(path, &error))
}

fn source<'a>(name: &str, tensor: &'a Tensor) -> Source<'a> {
    let dtype = match tensor.dtype() {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    };
    let fill = Box::new(move |file: &mut dyn Write| file.write_all(&tensor.read()?));
    Source { name: name.into(), dtype, shape: tensor.shape().to_vec(), fill }
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> HeadsError {
    // A library's error may have lines of its own; what a person sees is one.
    let reason = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    HeadsError::Format { path: path.into(), reason: format!("no PyTorch file that can be read: {reason}") }
}
