//! Newer weights of what drafts, which `publish = true` puts in the place of those that were loaded.

use super::{DrafterChoice, Drafters, Drafting};
use crate::console::Console;
use crate::failure::Failure;
use crate::load;
use gorgon_model::decoder::Decoder;
use gorgon_train::checkpoint::MODEL_FILE;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Tells one content of a file from a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// The file's number, which is another after a file was renamed to its place.
    number: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let data = path.metadata().ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&data);
        #[cfg(not(unix))]
        let number = 0;
        Some(Self { modified: data.modified().ok(), bytes: data.len(), number })
    }
}

/// Watches for newer weights of a drafter.
#[derive(Clone, Debug)]
pub struct Newer {
    path: PathBuf,
    seen: Option<Stamp>,
}

impl Newer {
    /// The weights that draft; `None` where nothing that can be fitted drafts.
    pub fn of(drafting: &Drafting) -> Option<Self> {
        let path = match (&drafting.choice, &drafting.heads) {
            (DrafterChoice::Model(dir), _) => dir.join(MODEL_FILE),
            (DrafterChoice::Heads(_), Some(folder)) => folder.path.join(MODEL_FILE),
            _ => return None,
        };
        let seen = Stamp::of(&path);
        Some(Self { path, seen })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file was replaced since this was last asked.
    pub fn appeared(&mut self) -> bool {
        let now = Stamp::of(&self.path);
        let newer = now.is_some() && now != self.seen;
        if newer {
            self.seen = now;
        }
        newer
    }
}

impl Drafting {
    /// Drafters with the weights that lie there now. Tree and calibration stay.
    ///
    /// # Errors
    /// When heads are of another shape than those before, a draft model has other tokens than the target, or they
    /// cannot be read.
    pub fn renewed(&self, decoder: &Arc<Decoder>) -> Result<Drafters, Failure> {
        let Some(before) = &self.heads else {
            self.target.as_deref().map_or(Ok(()), |target| self.check_vocabularies(target))?;
            return self.drafters(decoder);
        };
        let heads = load::heads(&before.path, &Console::silent())?;
        if (heads.detected.format, &heads.detected.spec) != (before.detected.format, &before.detected.spec) {
            let path = before.path.display();
            return Err(Failure::input(format!("{path}: the heads there now have another shape than those in use")));
        }
        self.drafters_of(&self.choice, Some(&heads), decoder)
    }
}

#[cfg(test)]
mod tests;
