//! The conversations of a job, from files and from the synthetic corpus.

use crate::config::{Answers, DistillConfig, Synthetic};
use crate::distill::{GIVEN, Prompt};
use crate::render::{RenderError, Renderer};
use crate::shard::Row;
use crate::source::{self, Options, Report, SourceError};
use gorgon_tiny_chat::{self as synth, Split};

/// What a job has to work on.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The conversations, in order.
    pub prompts: Vec<Prompt>,
    /// The answers that the data gives, turn by turn, beside each prompt.
    pub given: Vec<Vec<Option<String>>>,
    /// What was kept and skipped, file by file.
    pub reports: Vec<Report>,
    /// Conversations of which only the first turn is used, since the model has no chat template.
    pub cut_to_one_turn: usize,
}

/// Reads all prompts of a config.
///
/// # Errors
/// When a file cannot be read or holds nothing of use.
pub fn gather(config: &DistillConfig, has_template: bool) -> Result<Gathered, SourceError> {
    let mut all = Gathered::default();
    for path in &config.prompts {
        let options = Options {
            format: config.format,
            answers_required: config.answers == Answers::Data,
            limit: (config.limit > 0).then_some(config.limit),
            ..Options::default()
        };
        let (conversations, report) = source::read(path, &options)?;
        all.reports.push(report);
        for conversation in conversations {
            let (users, given) = conversation.turns.into_iter().map(|turn| (turn.user, turn.assistant)).unzip();
            let prompt = Prompt {
                row: 0,
                id: conversation.id,
                source: path.display().to_string(),
                line: conversation.line as u64,
                category: conversation.category,
                system: conversation.system,
                users,
            };
            all.add(prompt, given, has_template);
        }
    }
    if let Some(corpus) = &config.synthetic {
        all.add_synthetic(corpus, has_template);
    }
    Ok(all)
}

impl Gathered {
    fn add_synthetic(&mut self, corpus: &Synthetic, has_template: bool) {
        let split = if corpus.held_out { Split::HeldOut } else { Split::Train };
        for i in 0..corpus.dialogues {
            let dialogue = synth::dialogue(corpus.seed, split, i);
            let turns = dialogue.exchanges.into_iter().map(|exchange| (exchange.user, Some(exchange.assistant)));
            let (users, given) = turns.unzip();
            let prompt = Prompt {
                row: 0,
                id: format!("synthetic-{i}"),
                source: "synthetic".into(),
                line: i + 1,
                category: Some(dialogue.kind.into()),
                system: dialogue.system,
                users,
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
        self.prompts.push(prompt);
        self.given.push(given);
    }
}

/// A conversation with the answers that the data gives, up to the first turn without one.
///
/// # Errors
/// When the chat template or the tokenizer refuses it.
pub fn given_row(renderer: &Renderer, prompt: &Prompt, given: &[Option<String>]) -> Result<Row, RenderError> {
    let turns: Vec<(&str, &str)> =
        prompt.users.iter().zip(given).map_while(|(user, answer)| Some((user.as_str(), answer.as_deref()?))).collect();
    let ends = vec![GIVEN.to_owned(); turns.len()];
    let example = renderer.conversation(prompt.system.as_deref(), turns)?;
    Ok(Row {
        row: prompt.row,
        id: prompt.id.clone(),
        source: prompt.source.clone(),
        line: prompt.line,
        category: prompt.category.clone(),
        example,
        ends,
        shard: String::new(),
    })
}
