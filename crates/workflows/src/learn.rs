//! The log of `--learn`: texts with the positions at which the target corrected what drafted, as training shards.
//!
//! Training reads a folder of them like any other data. A text has the mask of its answers, and a mask of its corrected
//! tokens (`labels = "corrected"`). Neither hidden states nor distributions are kept: training computes them again from
//! the tokens, whole and exact.

use crate::drafting::Drafting;
use crate::failure::Failure;
use crate::files;
use gorgon_data::manifest::{IDENTITY, MANIFEST};
use gorgon_data::render::Example;
use gorgon_data::shard::{self, Row};
use gorgon_draft::corrections::{CorrectedText, Corrections};
use gorgon_runs::provenance::hash_bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Texts that are gathered before they are written, as one file.
const BUFFER: usize = 16;
/// The key of metadata that marks the files of a log, and its value.
const MARK: (&str, &str) = ("gorgon.log", "corrections");

/// The file that a process locks while it writes.
const LOCK: &str = "log.lock";

/// Where corrections are logged to.
#[derive(Clone, Debug)]
pub struct Learning {
    /// The folder.
    pub dir: PathBuf,
    /// Bytes of its files at most. Beyond them the oldest are removed.
    pub most_bytes: u64,
}

/// A folder that texts are logged to.
pub struct CorrectionLog {
    learning: Learning,
    metadata: BTreeMap<String, String>,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    rows: Vec<Row>,
    /// The number of the next file.
    next: usize,
}

impl CorrectionLog {
    /// Opens a folder, or makes it. `model` is the target's folder. Later files are added to those that are there.
    ///
    /// # Errors
    /// When nothing that can be fitted drafts, or the folder holds something else or cannot be written.
    pub fn open(learning: &Learning, model: &Path, drafting: &Drafting) -> Result<Arc<dyn Corrections>, Failure> {
        let dir = &learning.dir;
        let shown = dir.display();
        if !drafting.learns() {
            let name = drafting.name();
            let message =
                format!("--learn {shown}: drafter {name}: corrections are logged of draft heads and draft models only");
            return Err(Failure::input(message).hint("name some with --heads DIR or --drafter model:DIR"));
        }
        if drafting.is_plain() {
            let tree = &drafting.tree_name;
            let message = format!("--learn {shown}: tree {tree}: nothing is drafted that could be wrong");
            return Err(Failure::input(message).hint("name a tree with drafts, such as --tree chain:2"));
        }
        if let Some(file) = [MANIFEST, IDENTITY].iter().find(|file| dir.join(file).exists()) {
            let message = format!("--learn {shown}: {file} is there, so this is a distilled data set");
            return Err(Failure::input(message).hint("name another folder"));
        }
        files::check_writable(dir)?;
        let mut builder = std::fs::DirBuilder::new();
        // It will hold what people ask, so a new folder is its owner's alone.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(dir).map_err(|error| Failure::io(dir, &error))?;
        let known = shard::files(dir).unwrap_or_default();
        if let Some(other) = known.first().filter(|file| !is_log(file)) {
            let message = format!("--learn {shown}: {} is not of a log of corrections", other.display());
            return Err(Failure::input(message).hint("name another folder"));
        }
        let mut metadata =
            BTreeMap::from([("gorgon.schema", "1"), MARK].map(|(key, value)| (key.into(), value.into())));
        if let Ok(hash) = files::tokenizer_hash(model) {
            metadata.insert("gorgon.tokenizer_sha256".into(), hash);
        }
        let gathered = Mutex::new(Gathered { rows: vec![], next: next_file(&known) });
        Ok(Arc::new(Self { learning: learning.clone(), metadata, gathered }))
    }

    /// Writes the gathered texts.
    fn write(&self, gathered: &mut Gathered) {
        if gathered.rows.is_empty() {
            return;
        }
        let dir = &self.learning.dir;
        // Other processes that log to the same folder wait. Where files cannot be locked, this one goes on.
        let lock = File::options().write(true).create(true).truncate(false).open(dir.join(LOCK));
        let lock = lock.and_then(|file| file.lock().map(|()| file));
        if let Err(error) = &lock {
            tracing::warn!(dir = %dir.display(), %error, "the log is not locked: other processes may write to it too");
        }
        // Behind all that others wrote: the lowest numbers are the oldest texts.
        gathered.next = gathered.next.max(next_file(&shard::files(dir).unwrap_or_default()));
        let path = dir.join(shard::file_name(gathered.next));
        for (i, row) in gathered.rows.iter_mut().enumerate() {
            row.row = (gathered.next * BUFFER + i) as u64;
            (row.id, row.line) = (format!("correction-{}", row.row), row.row + 1);
        }
        match shard::write(&path, &gathered.rows, &self.metadata) {
            Ok(()) => gathered.next += 1,
            // Answers go on: what is lost is what would have been learnt.
            Err(error) => tracing::error!(path = %path.display(), %error, "corrections were not logged"),
        }
        gathered.rows.clear();
        self.trim();
    }

    /// Removes the oldest files beyond the bound. The newest stays in any case, and so do files of others.
    fn trim(&self) {
        let known = shard::files(&self.learning.dir).unwrap_or_default();
        let bytes = |path: &PathBuf| path.metadata().map_or(0, |data| data.len());
        let mut total: u64 = known.iter().map(bytes).sum();
        for path in &known[..known.len().saturating_sub(1)] {
            if total <= self.learning.most_bytes || !is_log(path) {
                return;
            }
            total -= bytes(path);
            if let Err(error) = std::fs::remove_file(path) {
                tracing::error!(path = %path.display(), %error, "an old file of the log was not removed");
            }
        }
    }
}

/// Whether a shard was written by a log.
fn is_log(path: &Path) -> bool {
    shard::described(path).is_ok_and(|metadata| metadata.get(MARK.0).is_some_and(|mark| mark == MARK.1))
}

/// The number after the last of some files.
fn next_file(known: &[PathBuf]) -> usize {
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.strip_prefix("shard-")?.parse::<u32>().ok();
    known.iter().filter_map(number).max().map_or(0, |last| last as usize + 1)
}

/// Hash of a text's first prompt, which decides whether it is held out: a conversation and its longer versions are not
/// on both sides.
fn key(text: CorrectedText<'_>) -> Option<u64> {
    let prompt = text.own.iter().position(|own| *own).unwrap_or(text.ids.len());
    let bytes: Vec<u8> = text.ids[..prompt].iter().flat_map(|token| token.to_le_bytes()).collect();
    u64::from_str_radix(hash_bytes(&bytes).get(..16)?, 16).ok()
}

impl Corrections for CorrectionLog {
    fn take(&self, text: CorrectedText<'_>) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut corrected = vec![false; text.ids.len()];
        for &at in text.corrected.iter().filter(|&&at| at < text.ids.len()) {
            corrected[at] = true;
        }
        gathered.rows.push(Row {
            // Numbered when the file is written.
            row: 0,
            key: key(text).unwrap_or(0),
            id: String::new(),
            source: "--learn".into(),
            line: 0,
            category: None,
            example: Example { ids: text.ids.to_vec(), assistant: text.own.to_vec(), corrected: Some(corrected) },
            ends: vec!["given".into()],
            shard: String::new(),
        });
        if gathered.rows.len() == BUFFER {
            self.write(&mut gathered);
        }
    }
}

impl Drop for CorrectionLog {
    fn drop(&mut self) {
        let mut gathered = std::mem::take(self.gathered.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.write(&mut gathered);
    }
}

#[cfg(test)]
mod tests;
