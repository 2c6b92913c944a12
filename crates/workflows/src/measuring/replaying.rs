//! Drafters that read tokens alone, and simulated heads, measured on recorded answers: no model decodes.

mod costs;
mod made;
mod replayed;

use crate::console::BarStyle;
use crate::drafting::DrafterChoice;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{absent, load, prompts};
use gorgon_bench::replay::{self, RecordedAnswer, Replay, ReplaySummary};
use gorgon_bench::step_times::StepTime;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeChoice;
use gorgon_data::render::{RenderError, Renderer};
use gorgon_data::source::Conversation;
use gorgon_runs::file;
use made::{edited, quotation};
use replayed::ReplayedDrafter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The largest file of a prompt that is edited.
const MOST_BYTES: u64 = 1 << 20;
/// Categories of answers that are made from prompts.
const QUOTES: &str = "quotes";
const EDITS: &str = "edits";
/// Category and prompt of texts that are answers themselves.
const TEXTS: &str = "texts";
const REQUEST: &str = "Write this file.";

/// Settings of a replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// A model folder, a GGUF file or a repo id: of its tokenizer and chat template.
    pub model: String,
    /// The drafters.
    pub drafters: Vec<DrafterChoice>,
    /// The tree of all of them, if it is named.
    pub tree: Option<TreeChoice>,
    /// Files of conversations with answers.
    pub answers: Vec<PathBuf>,
    /// Files of prompts, whose answers are quotations from them.
    pub quotes: Vec<PathBuf>,
    /// Texts, whose answers are the same texts with small edits.
    pub edits: Vec<PathBuf>,
    /// Texts that are answers themselves.
    pub texts: Vec<PathBuf>,
    /// Where times of passes come from: a JSON file with `step_times`, or a model, which is measured.
    pub step_times: Option<String>,
    /// Conversations of a file at most.
    pub limit: usize,
    /// Tokens of an answer at most.
    pub max_new_tokens: usize,
}

/// A drafter's totals on a category.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The drafter.
    pub drafter: String,
    /// Its tree.
    pub tree: String,
    /// The category; `all` for all of them.
    pub category: String,
    /// The totals.
    #[serde(flatten)]
    pub summary: ReplaySummary,
}

/// Results of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// Totals by drafter and category.
    pub rows: Vec<Row>,
    /// Every answer with every drafter, the drafters in their order.
    pub answers: Vec<(String, Replay)>,
    /// Times of passes, where they are known.
    pub step_times: Option<Vec<StepTime>>,
}

/// Replays every answer with every drafter. A drafter keeps from one answer to the next what it keeps across texts.
///
/// # Errors
/// When a file or the tokenizer cannot be read, no file is named, or a drafter reads more than tokens.
pub fn run(options: &Options, settings: &Settings) -> Result<Replayed, Failure> {
    let tree = options.tree.as_ref();
    options.drafters.iter().try_for_each(|choice| ReplayedDrafter::check(choice, tree, settings))?;
    let recorded = recorded(options, settings)?;
    let costs = options.step_times.as_ref().map(|from| costs::read(from, settings)).transpose()?;
    let costs = costs.as_ref();
    let bar = settings.console.bar(BarStyle::Count, "answers", (options.drafters.len() * recorded.len()) as u64);
    let (mut rows, mut answers) = (vec![], vec![]);
    for choice in &options.drafters {
        let mut drafter = ReplayedDrafter::new(choice, tree, costs, settings)?;
        let mut replays = vec![];
        for answer in &recorded {
            replays.push(drafter.replay(answer)?);
            bar.inc(1);
        }
        let mut by: BTreeMap<&str, Vec<&Replay>> = BTreeMap::new();
        replays.iter().for_each(|replay| by.entry(&replay.category).or_default().push(replay));
        let totals = by.into_iter().map(|(category, replays)| (category, replay::summarise(replays, costs)));
        for (category, summary) in totals.chain([("all", replay::summarise(&replays, costs))]) {
            let (drafter, tree) = (drafter.name.clone(), drafter.tree.clone());
            rows.extend(summary.map(|summary| Row { drafter, tree, category: category.into(), summary }));
        }
        answers.extend(replays.into_iter().map(|replay| (drafter.name.clone(), replay)));
    }
    bar.finish();
    if rows.is_empty() {
        return Err(Failure::run("no answer took a step: each has one token at most"));
    }
    let step_times = costs.map(|costs| costs.times().to_vec());
    Ok(Replayed { rows, answers, step_times })
}

/// The answers of all files.
fn recorded(options: &Options, settings: &Settings) -> Result<Vec<RecordedAnswer>, Failure> {
    let edits: Vec<(String, String)> = options.edits.iter().map(|path| text(path)).collect::<Result<_, Failure>>()?;
    let texts: Vec<(String, String)> = options.texts.iter().map(|path| text(path)).collect::<Result<_, Failure>>()?;
    let renderer = prompts::renderer(&load::folder(&options.model, settings)?, None, settings)?;
    let (mut all, mut refused) = (vec![], 0);
    let mut keep = |answers: Result<Vec<RecordedAnswer>, RenderError>| match answers {
        Ok(answers) => all.extend(answers),
        Err(_) => refused += 1,
    };
    let mut random = SeededRandom::new(settings.seed);
    for path in &options.answers {
        for conversation in prompts::read(std::slice::from_ref(path), options.limit, settings)? {
            keep(given(&renderer, &conversation, &stem(path)));
        }
    }
    for path in &options.quotes {
        for conversation in prompts::read(std::slice::from_ref(path), options.limit, settings)? {
            let prompt = conversation.turns.first().map_or("", |turn| turn.user.as_str());
            let quote = quotation(prompt, &mut random);
            let category = conversation.category.as_deref().unwrap_or(QUOTES);
            let answer = quote.map(|quote| made_answer(&renderer, (&conversation.id, category), prompt, quote));
            keep(answer.transpose().map(|answer| answer.into_iter().collect()));
        }
    }
    for (name, text) in &edits {
        let answer = made_answer(&renderer, (name, EDITS), text, &edited(text, &mut random));
        keep(answer.map(|answer| vec![answer]));
    }
    for (name, text) in &texts {
        keep(made_answer(&renderer, (name, TEXTS), REQUEST, text).map(|answer| vec![answer]));
    }
    if refused > 0 {
        settings.console.say(format!("warning: {refused} texts skipped: chat template or tokenizer refuses them"));
    }
    all.iter_mut().for_each(|one: &mut RecordedAnswer| one.answer.truncate(options.max_new_tokens));
    match all.is_empty() {
        true => {
            Err(Failure::input("no recorded answer").hint("name files with --answers, --quotes, --edits or --texts"))
        }
        false => Ok(all),
    }
}

/// The answers that a conversation has, up to the first turn without one; of a model without a chat template, the
/// first.
fn given(renderer: &Renderer, conversation: &Conversation, file: &str) -> Result<Vec<RecordedAnswer>, RenderError> {
    let system = conversation.system.as_deref().filter(|_| renderer.has_template());
    let turns = if renderer.has_template() { conversation.turns.len() } else { 1 };
    let mut transcript = renderer.transcript(system)?;
    let mut answers = vec![];
    for (number, turn) in conversation.turns.iter().take(turns).enumerate() {
        let Some(assistant) = &turn.assistant else { break };
        transcript.ask_with(&turn.user, &turn.calls)?;
        let prompt = transcript.example().ids.clone();
        transcript.answer(assistant)?;
        let example = transcript.example();
        let labels = example.assistant[prompt.len()..].iter().take_while(|&&own| own).count();
        let answer = example.ids[prompt.len()..prompt.len() + labels].to_vec();
        let id = format!("{}.{}", conversation.id, number + 1);
        let category = conversation.category.clone().unwrap_or_else(|| file.to_owned());
        answers.push(RecordedAnswer { id, category, prompt, answer });
    }
    Ok(answers)
}

/// One exchange.
fn made_answer(
    renderer: &Renderer,
    (id, category): (&str, &str),
    user: &str,
    assistant: &str,
) -> Result<RecordedAnswer, RenderError> {
    let mut transcript = renderer.transcript(None)?;
    transcript.ask(user)?;
    let prompt = transcript.example().ids.clone();
    transcript.answer(assistant)?;
    let example = transcript.into_example();
    let own = example.assistant[prompt.len()..].iter().take_while(|&&own| own).count();
    let answer = example.ids[prompt.len()..prompt.len() + own].to_vec();
    Ok(RecordedAnswer { id: id.into(), category: category.into(), prompt, answer })
}

/// A file's name and text.
fn text(path: &Path) -> Result<(String, String), Failure> {
    absent::check(path, "file")?;
    let bytes = file::read(path, MOST_BYTES).map_err(|error| Failure::io(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("{}: this is no UTF-8 text: wrong byte at {at}", path.display()))
    })?;
    match text.trim().is_empty() {
        true => Err(Failure::input(format!("{}: the file is empty", path.display()))),
        false => Ok((path.display().to_string(), text)),
    }
}

/// A file's name without folder and ending: the category of records that name none.
fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
