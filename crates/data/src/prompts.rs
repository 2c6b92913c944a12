//! The conversations of a job, from files and from the synthetic corpus.

use crate::config::{Answers, DistillConfig, Synthetic};
use crate::distill::{GIVEN, Prompt};
use crate::render::{RenderError, Renderer};
use crate::shard::Row;
use crate::source::{self, Options, Report, SourceError, Turn};
use gorgon_tiny_chat::{self as synth, Split};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// Prompts of a job, with their sources.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The conversations, in order.
    pub prompts: Vec<Prompt>,
    /// The answers that the data gives, turn by turn, beside each prompt.
    pub given: Vec<Vec<Option<String>>>,
    /// The files that were read.
    pub files: Vec<PromptFile>,
    /// Kept and skipped records, file by file.
    pub reports: Vec<Report>,
    /// Conversations of which only the first turn is used, since the model has no chat template.
    pub cut_to_one_turn: usize,
    /// How many equal records there were so far, by their hash.
    equal: HashMap<u64, u64>,
}

/// A file of prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptFile {
    /// Its path here.
    pub path: PathBuf,
    /// Its name in configs and shards.
    pub name: String,
}

/// Reads all prompts of a config, whose `prompts` are `sources`, each with its files: one file, or those of a data set.
/// Files after those that fill a source's `limit` are not asked for.
///
/// # Errors
/// When a file cannot be had or read, or holds nothing of use.
pub fn gather<E: From<SourceError>>(
    config: &DistillConfig,
    sources: impl IntoIterator<Item = impl IntoIterator<Item = Result<PromptFile, E>>>,
    renderer: &Renderer,
) -> Result<Gathered, E> {
    let (mut all, has_template) = (Gathered::default(), renderer.has_template());
    for source in sources {
        let mut left = if config.limit == 0 { usize::MAX } else { config.limit };
        let mut files = source.into_iter();
        while left > 0
            && let Some(file) = files.next().transpose()?
        {
            left -= all.add_file(config, file, left, renderer)?;
        }
    }
    if let Some(corpus) = &config.synthetic {
        all.add_synthetic(corpus, has_template);
    }
    Ok(all)
}

impl Gathered {
    /// Adds the first `limit` conversations of a file. Returns how many there were.
    fn add_file(
        &mut self,
        config: &DistillConfig,
        file: PromptFile,
        limit: usize,
        renderer: &Renderer,
    ) -> Result<usize, SourceError> {
        let options = Options {
            format: config.format,
            answers_required: config.answers == Answers::Data,
            tools: renderer.has_tools(),
            limit: Some(limit),
            ..Options::default()
        };
        let (conversations, report) = source::read(&file.path, &options)?;
        self.reports.push(report);
        let count = conversations.len();
        for conversation in conversations {
            let mut calls = BTreeMap::new();
            let mut part = |(i, turn): (usize, Turn)| {
                if !turn.calls.is_empty() {
                    calls.insert(i, turn.calls);
                }
                (turn.user, turn.assistant)
            };
            let (users, given) = conversation.turns.into_iter().enumerate().map(&mut part).unzip();
            let prompt = Prompt {
                row: 0,
                key: conversation.digest,
                id: conversation.id,
                source: file.name.clone(),
                line: conversation.line as u64,
                category: conversation.category,
                system: conversation.system,
                tools: conversation.tools,
                users,
                calls,
            };
            self.add(prompt, given, renderer.has_template());
        }
        self.files.push(file);
        Ok(count)
    }

    fn add_synthetic(&mut self, corpus: &Synthetic, has_template: bool) {
        let split = if corpus.held_out { Split::HeldOut } else { Split::Train };
        for i in 0..corpus.dialogues {
            let dialogue = synth::dialogue(corpus.seed, split, i);
            let turns = dialogue.exchanges.into_iter().map(|exchange| (exchange.user, Some(exchange.assistant)));
            let (users, given): (Vec<String>, Vec<Option<String>>) = turns.unzip();
            let key = source::digest(&(i, &dialogue.kind, &dialogue.system, &users));
            let prompt = Prompt {
                row: 0,
                key,
                id: format!("synthetic-{i}"),
                source: "synthetic".into(),
                line: i + 1,
                category: Some(dialogue.kind.into()),
                system: dialogue.system,
                users,
                ..Prompt::default()
            };
            self.add(prompt, given, has_template);
        }
    }

    fn add(&mut self, mut prompt: Prompt, mut given: Vec<Option<String>>, has_template: bool) {
        if !has_template && (prompt.system.is_some() || prompt.users.len() > 1) {
            self.cut_to_one_turn += 1;
            prompt.system = None;
            prompt.users.truncate(1);
            given.truncate(1);
        }
        prompt.row = self.prompts.len() as u64;
        let equal = self.equal.entry(prompt.key).or_default();
        if *equal > 0 {
            prompt.key = source::digest(&(prompt.key, *equal));
        }
        *equal += 1;
        self.prompts.push(prompt);
        self.given.push(given);
    }
}

/// A conversation with the answers that the data gives, up to the first turn without one.
///
/// # Errors
/// When the chat template or the tokenizer refuses it.
pub fn given_row(renderer: &Renderer, prompt: &Prompt, given: &[Option<String>]) -> Result<Row, RenderError> {
    let mut transcript = renderer.transcript_with(prompt.system.as_deref(), prompt.tools.as_ref())?;
    let mut ends = vec![];
    for (turn, (user, answer)) in prompt.users.iter().zip(given).enumerate() {
        let Some(answer) = answer else { break };
        transcript.ask_with(user, prompt.calls(turn))?;
        transcript.answer(answer)?;
        ends.push(GIVEN.to_owned());
    }
    let example = transcript.into_example();
    Ok(Row {
        row: prompt.row,
        key: prompt.key,
        id: prompt.id.clone(),
        source: prompt.source.clone(),
        line: prompt.line,
        category: prompt.category.clone(),
        example,
        ends,
        shard: String::new(),
    })
}
