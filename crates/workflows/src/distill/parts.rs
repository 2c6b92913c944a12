//! A distillation cut into parts for several machines, and joined again. A conversation's answers do not depend on
//! which machine gave them, so the joined shards are those of one machine.

use super::job::{JOURNAL, PREFIX};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::of;
use gorgon_data::distill::{Journal, Prompt};
use gorgon_runs::run_dir::RunDir;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One of so many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which, from 1.
    index: u64,
    of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!("{text:?} is no part: expected I/N with I from 1 to N, as in 2/8")),
        }
    }
}

impl Part {
    /// Its folder in that of the job.
    pub fn folder(self, out: &Path) -> PathBuf {
        out.join(format!("{PREFIX}{}-of-{}", self.index, self.of))
    }

    /// The prompts that are its own.
    pub fn prompts(self, all: &[Prompt]) -> Vec<Prompt> {
        all.iter().filter(|prompt| prompt.row % self.of == self.index - 1).cloned().collect()
    }
}

/// Takes over the answers of all parts in a job's folder. `check` fails for the folder of another job.
///
/// # Errors
/// When a part belongs to another job, is still being worked on, or cannot be read.
pub fn join(
    out: &Path,
    journal: &mut Journal,
    check: impl Fn(&Path) -> Result<bool, Failure>,
    settings: &Settings,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("{}: {error}", out.display()));
    let mut parts = vec![];
    for entry in out.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_part = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if is_part && path.is_dir() {
            parts.push(path);
        }
    }
    parts.sort();
    for part in parts {
        // Locked as long as somebody works on it.
        let _lock = RunDir::open(&part)?;
        if !check(&part)? {
            continue;
        }
        let taken = journal.absorb(&Journal::open(&part.join(JOURNAL))?)?;
        settings.console.say(format!("{}: {} taken over", part.display(), of(taken, "answer")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
