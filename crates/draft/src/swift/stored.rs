//! A search that outlives its process, in a file.

use gorgon_model::pass::SkippedSublayers;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest such file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// More layers than any model has.
const MAX_LAYERS: usize = 1 << 16;

/// Where a search stands, and the model that it is of. Sub-layers are numbered by their layers, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// SHA-256 of the model's weights; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// Layers of the model.
    pub layers: usize,
    /// Its vocabulary.
    pub vocab_size: usize,
    /// Percent of the inner sub-layers that are left out.
    pub share: u8,
    /// Attentions of the best set.
    pub attention: Vec<usize>,
    /// Feed-forward networks of the best set.
    pub mlp: Vec<usize>,
    /// Sets that were tried.
    pub tries: usize,
    /// Those tried since a better one was found.
    pub since_better: usize,
    /// Whether the search has ended.
    pub ended: bool,
}

/// The number of sub-layers that are left out, `⌊2 ρ (L - 2)⌋`.
pub(super) fn left_out(layers: usize, percent: u8) -> usize {
    2usize.saturating_mul(percent.into()).saturating_mul(layers.saturating_sub(2)) / 100
}

impl Stored {
    /// The best set.
    ///
    /// # Errors
    /// When it is none of such a search: another number of sub-layers, or some of the first or the last layer.
    pub(super) fn set(&self) -> Result<SkippedSublayers, String> {
        let mut all: Vec<(bool, usize)> = self.attention.iter().map(|&layer| (true, layer)).collect();
        all.extend(self.mlp.iter().map(|&layer| (false, layer)));
        all.sort_unstable();
        all.dedup();
        let inner = all.iter().all(|&(_, layer)| layer > 0 && layer < self.layers.saturating_sub(1));
        let count = left_out(self.layers, self.share);
        if self.layers > MAX_LAYERS || !inner || all.len() != count || self.attention.len() + self.mlp.len() != count {
            return Err(format!(
                "the set is none of {count} sub-layers between the first and the last of {} layers",
                self.layers
            ));
        }
        SkippedSublayers::new(self.layers, &self.attention, &self.mlp).map_err(|layer| format!("layer {layer}"))
    }

    /// Fails if it is of another model or share.
    ///
    /// # Errors
    /// One line, without the file's name.
    pub(super) fn check(&self, layers: usize, vocab_size: usize, share: u8) -> Result<(), String> {
        if (self.layers, self.vocab_size) != (layers, vocab_size) {
            return Err(format!(
                "a search of a model with {} layers and {} tokens; this one has {layers} and {vocab_size}",
                self.layers, self.vocab_size
            ));
        }
        match self.share == share {
            true => Ok(()),
            false => Err(format!("a search that leaves out {} percent, not {share}", self.share)),
        }
    }
}

/// The file of a search, and what was in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The file.
    pub path: PathBuf,
    /// Its content when it was opened; `None` if there was no file.
    pub stored: Option<Stored>,
    /// SHA-256 of the weights that it was bound to.
    pub weights: Option<String>,
}

impl StateFile {
    /// Opens a file, which need not be there yet.
    ///
    /// # Errors
    /// One line with the path, when it cannot be read or holds something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        let wrong = |reason: String| format!("swift: {}: {reason}", path.display());
        let stored = match gorgon_runs::file::read(path, MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(wrong(error.to_string())),
            Ok(bytes) => {
                let stored: Stored = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
                stored.set().map_err(wrong)?;
                Some(stored)
            }
        };
        Ok(Self { path: path.into(), stored, weights: None })
    }

    /// Binds it to weights with this SHA-256. A file without one is taken to be theirs: files of this kind had none once.
    ///
    /// # Errors
    /// One line with the path when the file is of other weights.
    pub(super) fn bind(&mut self, weights: &str) -> Result<(), String> {
        let path = self.path.display();
        match self.stored.as_ref().map(|stored| stored.weights_sha256.as_deref()) {
            Some(Some(theirs)) if theirs != weights => {
                return Err(format!(
                    "swift: {path}: this search belongs to a model with other weights; name another file with state="
                ));
            }
            Some(None) => tracing::warn!(%path, "the search does not say of which weights it is: taken to be of these"),
            _ => {}
        }
        self.weights = Some(weights.to_owned());
        Ok(())
    }

    /// SHA-256 of the weights that its search is of, as far as it is known.
    pub(super) fn weights(&self) -> Option<String> {
        self.weights.clone().or_else(|| self.stored.as_ref()?.weights_sha256.clone())
    }

    /// Writes the state of a search, whole or not at all. Drafting goes on without.
    pub(super) fn write(&self, stored: &Stored) {
        let written = gorgon_runs::atomic::write(&self.path, |file| {
            serde_json::to_writer_pretty(&mut *file, stored)?;
            file.write_all(b"\n")
        });
        if let Err(error) = written {
            tracing::error!(path = %self.path.display(), %error, "the search was not stored");
        }
    }
}
