//! A distillation cut into parts for several machines, and joined again. A conversation's answers do not depend on
//! which machine gave them, so the joined shards are those of one machine.

use crate::commands::distill::{JOURNAL, Job};
use crate::commands::load;
use crate::error::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_data::config::{Answers, DistillConfig};
use gorgon_data::distill::{Journal, Prompt};
use gorgon_data::manifest::IDENTITY;
use gorgon_runs::run_dir::RunDir;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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

/// What the name of a part's folder starts with.
const PREFIX: &str = "part-";

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

/// Answers one part of the prompts, for another machine or process to join with the rest.
///
/// # Errors
/// When the config, the prompts or the model are wrong, or the part's folder is another job's.
pub fn execute(config: DistillConfig, part: Part, dry_run: bool, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut job = Job::prepare(config, settings)?;
    if job.config.answers == Answers::Data {
        return Err(Failure::input("--shard: given answers need no parts"));
    }
    let folder = part.folder(&job.config.out);
    job.check_folder(&folder)?;
    let identity = job.identity()?;
    job.gathered.prompts = part.prompts(&job.gathered.prompts);
    job.say_plan(settings)?;
    if dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    load::check_writable(&folder)?;
    std::fs::create_dir_all(&folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
    let folder = RunDir::open(&folder)?;
    fitting::write_json(&folder.path().join(IDENTITY), &identity)?;
    let mut journal = Journal::open(&folder.path().join(JOURNAL))?;
    let Some(took) = job.answer(&job.gathered.prompts, &mut journal, folder.path(), settings)? else {
        settings.talk.say("stopped; the same command goes on from here");
        return Ok(ExitCode::FAILURE);
    };
    if let Some(words) = took.words() {
        settings.talk.say(words);
    }
    settings.talk.say(format!("{} is done; the same command without --shard joins all parts", folder.path().display()));
    Ok(ExitCode::SUCCESS)
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
        settings.talk.say(format!("{}: {taken} answers taken over", part.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
