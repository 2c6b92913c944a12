//! GGUF files, read as model folders.
//!
//! A GGUF file holds in one piece what a Hugging Face folder holds in several: settings, tokenizer, chat template and
//! tensors. This crate parses the file and writes its settings in the spelling of that folder's documents
//! ([`read`]), so that whatever reads a folder reads a GGUF file too. Tensors are named as in such a folder
//! ([`names`]); their blocks become numbers in [`blocks`].
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Every byte is untrusted: counts, lengths and
//! places are compared with the file's length before memory is asked for.

pub mod blocks;
mod config;
mod error;
mod file;
pub mod kind;
mod merges;
pub mod names;
mod pre_tokenizer;
mod reader;
mod rope;
mod tokenizer;
mod value;
mod vocabulary;
pub mod write;

pub use self::error::GgufError;
pub use self::file::{Gguf, Tensor};
pub use self::value::{Array, Metadata, Value};

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The ending of file names.
const EXTENSION: &str = "gguf";

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(EXTENSION))
}

/// The GGUF file that a model path means: the file itself, or the only one in a folder without safetensors. `None` for
/// any other path.
///
/// # Errors
/// [`GgufError::Several`] for a folder of several GGUF files and no safetensors.
pub fn find(model: &Path) -> Result<Option<PathBuf>, GgufError> {
    if is_gguf(model) && model.is_file() {
        return Ok(Some(model.to_owned()));
    }
    let Ok(entries) = model.read_dir() else { return Ok(None) };
    let mut found: Vec<PathBuf> = vec![];
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") {
            return Ok(None);
        }
        if is_gguf(&path) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => Err(GgufError::Several { folder: model.into(), count: found.len(), first: first.clone() }),
    }
}

/// The file that a model's document is read from: the GGUF file, or `name` in the folder.
pub fn place(model: &Path, name: &str) -> PathBuf {
    find(model).ok().flatten().unwrap_or_else(|| model.join(name))
}

/// A document of a model: `config.json`, `generation_config.json`, `tokenizer.json` or `tokenizer_config.json`. That of
/// a folder is the file of at most `limit` bytes, that of a GGUF file is written from its metadata.
///
/// # Errors
/// [`ErrorKind::NotFound`] when there is none, and whatever else is wrong with the file.
pub fn read(model: &Path, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    match find(model).map_err(io::Error::other)? {
        None => gorgon_runs::file::read(&model.join(name), limit),
        Some(path) => document(&path, name).map_err(io::Error::other)?.ok_or_else(|| ErrorKind::NotFound.into()),
    }
}

/// A document of a GGUF file; `None` where such a file has none of that name.
fn document(path: &Path, name: &str) -> Result<Option<Vec<u8>>, GgufError> {
    let write: fn(&Gguf) -> Result<serde_json::Value, String> = match name {
        "config.json" => config::config,
        "generation_config.json" => config::generation,
        "tokenizer.json" => tokenizer::tokenizer,
        "tokenizer_config.json" => tokenizer::settings,
        _ => return Ok(None),
    };
    let gguf = Gguf::open(path)?;
    let document = write(&gguf).map_err(|reason| gguf.invalid(reason))?;
    Ok(Some(document.to_string().into_bytes()))
}
