//! Prompts from a file, as tokens.

use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::of;
use crate::{absent, load};
use gorgon_bench::measure::BenchPrompt;
use gorgon_core::Token;
use gorgon_data::prompts::PromptFile;
use gorgon_data::render::{Renderer, Transcript};
use gorgon_data::source::{self, Conversation, Options};
use gorgon_hub::DataSet;
use gorgon_runs::provenance::Provenance;
use gorgon_text::variables::Variables;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Provenance of a run, in its folder.
const PROVENANCE: &str = "provenance.json";

/// Longest prompt that is read from stdin, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The prompt of `--prompt`: the text that is given, or for `-` all of `stdin` without the newline at its end.
///
/// # Errors
/// When it is empty, longer than 64 MiB, or no UTF-8.
pub fn given(prompt: &str, stdin: impl Read) -> Result<String, Failure> {
    if prompt.is_empty() {
        return Err(Failure::input("--prompt is empty"));
    }
    if prompt != "-" {
        return Ok(prompt.to_owned());
    }
    let mut bytes = vec![];
    let read = stdin.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::input(format!("--prompt -: stdin cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::input("--prompt -: stdin has more than 64 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("--prompt -: stdin is no UTF-8 text: wrong byte at {at}"))
    })?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() { Err(Failure::input("--prompt -: stdin is empty")) } else { Ok(text.to_owned()) }
}

/// Says what the model answers after some tokens.
type Answer<'a> = dyn FnMut(&[Token]) -> Result<Vec<Token>, Failure> + 'a;

/// A conversation whose first user turn was rendered.
pub struct Opening<'a> {
    /// The prompt: that turn, as tokens.
    pub prompt: BenchPrompt,
    transcript: Transcript<'a>,
    /// The user turns after it.
    later: Vec<String>,
}

impl Opening<'_> {
    /// The later user turns, at most `turns - 1` of them, as prompts: each after the answers that `answer` gives to
    /// those before it. Ends where one leaves no room for `new_tokens` in a context of `context`, or where the template
    /// does not write an answer as the model said it (one that is no text, say).
    ///
    /// # Errors
    /// When `answer` fails.
    pub fn later_turns(
        mut self,
        turns: usize,
        context: usize,
        new_tokens: usize,
        answer: &mut Answer<'_>,
    ) -> Result<Vec<BenchPrompt>, Failure> {
        let mut prompts: Vec<BenchPrompt> = vec![];
        for (i, user) in self.later.iter().take(turns.saturating_sub(1)).enumerate() {
            let said = answer(&self.transcript.example().ids)?;
            if self.transcript.answer_ids(&said).and_then(|()| self.transcript.ask(user)).is_err() {
                break;
            }
            let ids = self.transcript.example().ids.clone();
            if ids.len() + new_tokens > context {
                break;
            }
            prompts.push(BenchPrompt { id: format!("{}.{}", self.prompt.id, i + 2), ids, ..self.prompt.clone() });
        }
        Ok(prompts)
    }
}

/// The tokenizer and chat template of a model, with the variables that were given. Reports where `heads` were trained
/// with others.
///
/// # Errors
/// When they cannot be read, or variables are given to a model without a template.
pub fn renderer(dir: &Path, heads: Option<&Path>, settings: &Settings) -> Result<Renderer, Failure> {
    check_template(heads, settings);
    let renderer = Renderer::load(dir)?.with(settings.template.clone())?;
    report_unread(&renderer.unread(), dir, settings);
    Ok(renderer)
}

/// Reports given variables that the chat template does not read.
pub fn report_unread(names: &[&str], dir: &Path, settings: &Settings) {
    let dir = dir.display();
    for name in names {
        settings.console.say(format!("note: the chat template of {dir} does not read the variable {name}"));
    }
}

/// Reports where heads were trained with other variables of the chat template than those that were given.
pub fn check_template(heads: Option<&Path>, settings: &Settings) {
    let folders = heads.into_iter().flat_map(|heads| heads.ancestors().take(3));
    let found = folders.map(|folder| folder.join(PROVENANCE)).find(|path| path.is_file());
    let Some(Ok(provenance)) = found.map(|path| Provenance::read(&path)) else { return };
    if provenance.template != settings.template {
        let shown = |variables: &Variables| Value::from(variables.clone()).to_string();
        settings.console.say(format!(
            "note: the heads were trained with template variables {}, and are used with {}",
            shown(&provenance.template),
            shown(&settings.template)
        ));
    }
}

/// The files that one entry of a config or an option names: itself, or the data files of a data set on the hub.
pub enum Source {
    /// A file here.
    File(PathBuf),
    /// A data set, with the name that its files have before their own.
    DataSet(Box<DataSet>, String),
}

impl Source {
    /// The source of each entry. Data sets are listed, and not downloaded yet.
    ///
    /// # Errors
    /// When a file is not there, or a data set cannot be listed.
    pub fn all(entries: &[PathBuf], settings: &Settings) -> Result<Vec<Self>, Failure> {
        entries.iter().map(|entry| Self::of(entry, settings)).collect()
    }

    fn of(entry: &Path, settings: &Settings) -> Result<Self, Failure> {
        let text = entry.to_string_lossy();
        let Some(name) = text.strip_prefix("hf://") else {
            absent::check(entry, "file")?;
            return Ok(Self::File(entry.into()));
        };
        let data_set = name.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        Ok(Self::DataSet(Box::new(load::dataset(name, settings)?), format!("hf://{data_set}")))
    }

    /// The files in order, each downloaded when it is asked for.
    pub fn files<'a>(&'a self, settings: &'a Settings) -> Box<dyn Iterator<Item = Result<PromptFile, Failure>> + 'a> {
        match self {
            Self::File(path) => {
                Box::new(std::iter::once(Ok(PromptFile { path: path.clone(), name: path.display().to_string() })))
            }
            Self::DataSet(data_set, name) => Box::new(data_set.files().iter().map(move |file| {
                let path = load::dataset_file(data_set, file, settings)?;
                Ok(PromptFile { path, name: format!("{name}/{file}") })
            })),
        }
    }
}

/// The paths of all files that some entries name. Data sets are downloaded where they are not here yet.
///
/// # Errors
/// When a file is not there, or a data set cannot be had.
pub fn paths(entries: &[PathBuf], settings: &Settings) -> Result<Vec<PathBuf>, Failure> {
    let sources = Source::all(entries, settings)?;
    sources.iter().flat_map(|source| source.files(settings)).map(|file| Ok(file?.path)).collect()
}

/// The first `limit` conversations of some entries. Skipped records are reported.
///
/// # Errors
/// When a file cannot be had or read, or holds nothing of use.
pub fn read(entries: &[PathBuf], limit: usize, settings: &Settings) -> Result<Vec<Conversation>, Failure> {
    Ok(read_files(entries, limit, settings)?.0)
}

/// As [`read`], with the paths of the files that were read. Files of data sets after them are not downloaded.
///
/// # Errors
/// When a file cannot be had or read, or holds nothing of use.
pub fn read_files(
    entries: &[PathBuf],
    limit: usize,
    settings: &Settings,
) -> Result<(Vec<Conversation>, Vec<PathBuf>), Failure> {
    let (mut conversations, mut paths) = (vec![], vec![]);
    let sources = Source::all(entries, settings)?;
    let mut files = sources.iter().flat_map(|source| source.files(settings));
    while conversations.len() < limit
        && let Some(PromptFile { path, .. }) = files.next().transpose()?
    {
        refuse_folder(&path)?;
        let options = Options { limit: Some(limit - conversations.len()), ..Options::default() };
        let (more, report) = source::read(&path, &options)?;
        if !report.skipped.is_empty() {
            settings.console.say(report.to_string().trim_end());
        }
        conversations.extend(more);
        paths.push(path);
    }
    Ok((conversations, paths))
}

/// Fails for a folder where a file of conversations is needed; the hint says which names it has.
///
/// # Errors
/// Then.
pub fn refuse_folder(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        let message = format!("{}: a folder; name a file in it", path.display());
        return Err(Failure::input(message).hint(absent::inside(path)));
    }
    Ok(())
}

/// The first user turns of the first `limit` conversations of a file, rendered as prompts; those that leave no room for
/// `new_tokens` in a context of `context` are skipped and counted.
///
/// # Errors
/// When the file cannot be read, or no prompt fits.
pub fn load<'a>(
    path: &Path,
    renderer: &'a Renderer,
    limit: usize,
    context: usize,
    new_tokens: usize,
    settings: &Settings,
) -> Result<Vec<Opening<'a>>, Failure> {
    let conversations = read(&[path.into()], limit, settings)?;
    let (mut openings, mut long) = (vec![], 0);
    for conversation in conversations {
        let system = conversation.system.as_deref().filter(|_| renderer.has_template());
        let mut transcript = renderer.transcript(system)?;
        let mut users = conversation.turns.into_iter().map(|turn| turn.user);
        let Some(user) = users.next() else { continue };
        transcript.ask(&user)?;
        let ids = transcript.example().ids.clone();
        let is_empty = ids.is_empty();
        let ids = renderer.prompt(ids);
        if is_empty || ids.len() + new_tokens > context {
            long += 1;
            continue;
        }
        let later = if renderer.has_turns() { users.collect() } else { vec![] };
        let prompt = BenchPrompt { id: conversation.id, category: conversation.category, ids };
        openings.push(Opening { prompt, transcript, later });
    }
    if long > 0 {
        let room = format!("no room for {new_tokens} new tokens in {context}");
        settings.console.say(format!("warning: {} skipped: {room}", of(long, "prompt")));
    }
    if openings.is_empty() {
        return Err(Failure::input(format!("{}: no prompt fits the model's context", path.display())));
    }
    Ok(openings)
}

#[cfg(test)]
mod tests;
