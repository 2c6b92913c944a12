//! Distillation: prompts in, training shards out.

mod answering;
mod assumed;
mod forecast;
mod job;
mod memory_budget;
mod parts;
mod progress;
mod written;

pub use self::assumed::Assumed;
pub use self::parts::Part;

use self::job::{JOURNAL, Job};
use self::written::Answered;
use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use crate::units::of;
use gorgon_data::config::{Answers, DistillConfig};
use gorgon_data::distill::{self, Budget, Journal};
use gorgon_data::manifest::IDENTITY;
use gorgon_data::render::Renderer;
use gorgon_data::shard::Row;
use gorgon_runs::run_dir::RunDir;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How far a distillation came.
pub enum Done {
    /// The shards are written; a report of them.
    Written(Value),
    /// One part of the prompts is answered.
    Part,
    /// It stopped on request.
    Stopped,
}

/// Conversations as they would be trained on.
pub struct Preview {
    /// The conversations.
    pub rows: Vec<Row>,
    /// Renderer of the answers, which turns tokens into text.
    pub renderer: Renderer,
}

/// Reports what a config, or one part of it, would do. Returns the plan as a document.
///
/// # Errors
/// When the config, the prompts or the model are wrong, or the output folder is another job's.
pub fn plan(
    config: DistillConfig,
    part: Option<Part>,
    assumed: Assumed,
    settings: &Settings,
) -> Result<Value, Failure> {
    if (config.is_served() || config.answers == Answers::Data) && !assumed.is_none() {
        return Err(Failure::input("--assume-tokens, --assume-bandwidth: no model answers on this machine"));
    }
    let mut job = Job::prepare(config, settings)?;
    match part {
        Some(part) => take_part(&mut job, part).map(drop)?,
        None => job.check_folder(&job.config.out).map(drop)?,
    }
    job.report_plan(assumed, settings)
}

/// Does what a config says.
///
/// # Errors
/// When the config, the prompts or the model are wrong, or the output folder is another job's.
pub fn execute(config: DistillConfig, settings: &Settings) -> Result<Done, Failure> {
    let job = Job::prepare(config, settings)?;
    job.check_folder(&job.config.out)?;
    job.report_plan(Assumed::default(), settings)?;
    files::check_writable(&job.config.out)?;
    std::fs::create_dir_all(&job.config.out).map_err(|e| Failure::run(format!("{}: {e}", job.config.out.display())))?;
    let folder = RunDir::open(&job.config.out)?;
    job.claim(folder.path())?;
    let started = Instant::now();
    let answered = match job.config.answers {
        Answers::Data => Answered { rows: job.given_rows()?, ..Answered::default() },
        Answers::Model => match job.answered_rows(folder.path(), settings)? {
            Some(found) => found,
            None => {
                settings.console.say("stopped; the same command resumes from here");
                return Ok(Done::Stopped);
            }
        },
    };
    Ok(Done::Written(job.write(folder.path(), &answered, started, settings)?))
}

/// Keeps the prompts of one part only. Returns its folder, and the identity of the whole job.
fn take_part(job: &mut Job, part: Part) -> Result<(PathBuf, Value), Failure> {
    if job.config.answers == Answers::Data {
        return Err(Failure::input("--shard: given answers need no parts"));
    }
    let folder = part.folder(&job.config.out);
    job.check_folder(&folder)?;
    let identity = job.identity()?;
    job.gathered.prompts = part.prompts(&job.gathered.prompts);
    Ok((folder, identity))
}

/// Answers one part of the prompts, for another machine or process to join with the others.
///
/// # Errors
/// When the config, the prompts or the model are wrong, or the part's folder is another job's.
pub fn execute_part(config: DistillConfig, part: Part, settings: &Settings) -> Result<Done, Failure> {
    let mut job = Job::prepare(config, settings)?;
    let (folder, identity) = take_part(&mut job, part)?;
    job.report_plan(Assumed::default(), settings)?;
    files::check_writable(&folder)?;
    std::fs::create_dir_all(&folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
    let folder = RunDir::open(&folder)?;
    files::write_json(&folder.path().join(IDENTITY), &identity)?;
    let mut journal = Journal::open(&folder.path().join(JOURNAL))?;
    let Some(usage) = job.answer(&job.gathered.prompts, &mut journal, folder.path(), settings)? else {
        settings.console.say("stopped; the same command resumes from here");
        return Ok(Done::Stopped);
    };
    if let Some(words) = usage.words() {
        settings.console.say(words);
    }
    settings
        .console
        .say(format!("{} is done; the same command without --shard joins all parts", folder.path().display()));
    Ok(Done::Part)
}

/// Answers the first `n` conversations and writes nothing.
///
/// # Errors
/// When the config, the prompts or the model are wrong.
pub fn preview(config: DistillConfig, n: usize, settings: &Settings) -> Result<Preview, Failure> {
    let job = Job::prepare(config, settings)?;
    job.report_plan(Assumed::default(), settings)?;
    let prompts = &job.gathered.prompts[..n.min(job.gathered.prompts.len())];
    let rows = match job.config.answers {
        Answers::Data => job.given_rows()?.into_iter().take(n).collect(),
        Answers::Model => {
            let folder = tempfile::tempdir().map_err(Failure::run)?;
            let mut journal = Journal::open(&folder.path().join(JOURNAL))?;
            job.answer(prompts, &mut journal, folder.path(), settings)?;
            distill::rows(&job.renderer, prompts, &journal)?.0
        }
    };
    Ok(Preview { rows, renderer: job.renderer })
}

impl Job {
    /// The model's answers, or `None` if it stopped on request.
    fn answered_rows(&self, folder: &Path, settings: &Settings) -> Result<Option<Answered>, Failure> {
        let mut journal = Journal::open(&folder.join(JOURNAL))?;
        parts::join(folder, &mut journal, |part| self.check_folder(part), settings)?;
        if journal.conversations() > 0 {
            let (done, all) = (journal.conversations(), self.gathered.prompts.len());
            settings.console.say(format!("note: {done} of {} answered already", of(all, "conversation")));
        }
        let Some(usage) = self.answer(&self.gathered.prompts, &mut journal, folder, settings)? else {
            return Ok(None);
        };
        let all = &self.gathered.prompts;
        let kept = Budget::new(self.config.max_total_tokens).reached(all, &journal).unwrap_or(all.len());
        if kept < all.len() {
            let line = format!("note: max_total_tokens is reached after {kept} of {}", of(all.len(), "conversation"));
            settings.console.say(line);
        }
        let (rows, without) = distill::rows(&self.renderer, &all[..kept], &journal)?;
        Ok(Some(Answered { rows, without, usage }))
    }
}
