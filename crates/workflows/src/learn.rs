//! The log of `--learn`: texts with the positions at which the target corrected a draft model, as training shards.
//!
//! Training reads a folder of them like any other data. Every text has the mask of its corrected tokens alone, so a loss
//! over masked tokens reaches no other position. The target's distributions are not kept: training computes them again
//! from the text, whole and exact.

use crate::drafting::Drafting;
use crate::failure::Failure;
use crate::files;
use gorgon_core::Token;
use gorgon_data::manifest::{IDENTITY, MANIFEST};
use gorgon_data::render::Example;
use gorgon_data::shard::{self, Row};
use gorgon_draft::corrections::Corrections;
use gorgon_runs::provenance::hash_bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Texts that are gathered before they are written, as one file.
const BUFFER: usize = 16;

/// A folder that texts are logged to.
pub struct CorrectionLog {
    dir: PathBuf,
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
    /// When the drafter is no draft model, or the folder holds something else or cannot be written.
    pub fn open(dir: &Path, model: &Path, drafting: &Drafting) -> Result<Arc<dyn Corrections>, Failure> {
        let shown = dir.display();
        if !drafting.is_draft_model() {
            let name = drafting.name();
            let message = format!("--learn {shown}: drafter {name}: corrections are logged of a draft model only");
            return Err(Failure::input(message).hint("name one with --drafter model:DIR"));
        }
        if drafting.is_plain() {
            let tree = &drafting.tree_name;
            return Err(Failure::input(format!(
                "--learn {shown}: tree {tree}: nothing is drafted that could be wrong"
            )));
        }
        if let Some(file) = [MANIFEST, IDENTITY].iter().find(|file| dir.join(file).exists()) {
            let message = format!("--learn {shown}: {file} is there, so this is a distilled data set");
            return Err(Failure::input(message).hint("name another folder"));
        }
        files::check_writable(dir)?;
        std::fs::create_dir_all(dir).map_err(|error| Failure::io(dir, &error))?;
        let next = next_file(dir)?;
        let mut metadata = BTreeMap::from([("gorgon.schema".to_owned(), "1".to_owned())]);
        if let Ok(hash) = files::tokenizer_hash(model) {
            metadata.insert("gorgon.tokenizer_sha256".into(), hash);
        }
        let gathered = Mutex::new(Gathered { rows: vec![], next });
        Ok(Arc::new(Self { dir: dir.into(), metadata, gathered }))
    }

    /// Writes the gathered texts.
    fn write(&self, gathered: &mut Gathered) {
        if gathered.rows.is_empty() {
            return;
        }
        // Another process may log to the same folder.
        while self.dir.join(shard::file_name(gathered.next)).exists() {
            gathered.next += 1;
        }
        let path = self.dir.join(shard::file_name(gathered.next));
        match shard::write(&path, &gathered.rows, &self.metadata) {
            Ok(()) => gathered.next += 1,
            // Answers go on: what is lost is what would have been learnt.
            Err(error) => tracing::error!(path = %path.display(), %error, "corrections were not logged"),
        }
        gathered.rows.clear();
    }
}

/// The number after the last file of a folder.
fn next_file(dir: &Path) -> Result<usize, Failure> {
    let number = |name: &str| name.strip_prefix("shard-")?.strip_suffix(".parquet")?.parse::<u32>().ok();
    let mut next = 0;
    for entry in dir.read_dir().map_err(|error| Failure::io(dir, &error))? {
        let name = entry.map_err(|error| Failure::io(dir, &error))?.file_name();
        next = next.max(number(&name.to_string_lossy()).map_or(0, |number| number as usize + 1));
    }
    Ok(next)
}

impl Corrections for CorrectionLog {
    fn take(&self, text: &[Token], corrected: &[usize]) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let row = (gathered.next * BUFFER + gathered.rows.len()) as u64;
        let mut assistant = vec![false; text.len()];
        for &at in corrected.iter().filter(|&&at| at < text.len()) {
            assistant[at] = true;
        }
        let bytes: Vec<u8> = text.iter().flat_map(|token| token.to_le_bytes()).collect();
        let key = hash_bytes(&bytes).get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(row);
        gathered.rows.push(Row {
            row,
            key,
            id: format!("correction-{row}"),
            source: "--learn".into(),
            line: row + 1,
            category: None,
            example: Example { ids: text.to_vec(), assistant },
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
