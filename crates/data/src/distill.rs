//! Self-distillation: the backbone answers each user's turn, and its own tokens become the training data.
//!
//! Answers are journalled one by one as they end, so that a kill loses those in flight and nothing else, and shards are
//! made of the journal when all are there. An answer depends on its conversation, the model, the sampling and the seed,
//! but on the CPU not on the batch that it was decoded in.

mod client;
mod conversation;
mod journal;
mod serving;

pub use client::Serving;
pub use journal::{Answer, Journal};
pub use serving::{Servers, serve};

use crate::render::{RenderError, Renderer};
use crate::shard::Row;
use conversation::{Conversation, Work};
use gorgon_core::accept::AcceptanceRule;
use gorgon_infer::{Batch, DecodeError, Drafts, Feed, Generation, Request};
use gorgon_model::decoder::Decoder;
use gorgon_runs::RunError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why distillation stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// The model or what drafts for it.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] RunError),
    /// The model's scores are no scores.
    #[error("{source_file} line {line}: the model's logits are not finite: its weights are damaged")]
    NonFinite {
        /// The file of the prompt.
        source_file: String,
        /// Its line.
        line: u64,
    },
    /// No server answers.
    #[error("{url}: no answer after {attempts} attempts: {reason}")]
    Unserved {
        /// The server that was asked last.
        url: String,
        /// How often servers were asked.
        attempts: u32,
        /// What was wrong the last time.
        reason: String,
    },
}

/// A conversation to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its number among all that were kept.
    pub row: u64,
    /// Its id in the source.
    pub id: String,
    /// The file it came from.
    pub source: String,
    /// Where it starts there, from 1.
    pub line: u64,
    /// Its category.
    pub category: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The user's turns.
    pub users: Vec<String>,
}

impl Prompt {
    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        self.system.iter().chain(&self.users).map(String::len).sum()
    }
}

/// How long answers and conversations may get, and how they are drawn.
pub struct Answering<'a> {
    /// New tokens in an answer, at most.
    pub max_new_tokens: usize,
    /// Tokens in a conversation, at most.
    pub max_tokens: usize,
    /// Turns that the model makes up for the user after the given ones.
    pub self_talk_turns: usize,
    /// Picks tokens.
    pub rule: &'a (dyn AcceptanceRule + Sync),
    /// Seed of all chance; every answer has its own stream.
    pub seed: u64,
}

/// What is told while distilling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer ended.
    Answer {
        /// Its conversation.
        row: u64,
        /// Its tokens.
        tokens: usize,
    },
    /// A conversation is done.
    Conversation {
        /// Which.
        row: u64,
        /// Where it was, and the tokens that were read there; nothing where servers answer.
        slot: Option<(usize, usize)>,
    },
}

/// The conversations that are answered first: a tenth, and at least 32, drawn by their numbers, so that what they take
/// tells what all will take. The first ones to end would not: short answers end first.
pub fn pilots<'a>(left: impl Iterator<Item = &'a Prompt>) -> BTreeSet<u64> {
    const LEAST: usize = 32;
    // The bits of a product with the golden ratio are spread evenly over neighbouring numbers and over any stride.
    let spread = |row: &u64| {
        let product = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    let mut rows: Vec<u64> = left.map(|prompt| prompt.row).collect();
    rows.sort_by_key(spread);
    rows.truncate(rows.len().div_ceil(10).max(LEAST));
    rows.into_iter().collect()
}

/// How an answer ended.
pub const END_TOKEN: &str = "end_token";
/// An answer that was cut off.
pub const LENGTH: &str = "length";
/// A given answer.
pub const GIVEN: &str = "given";

/// Follows how an answer ended where its ids are not the server's own but those of its text.
pub const RETOKENISED: &str = ":retokenised";

/// The backbone with the way it answers.
pub struct Distillation<'a> {
    /// The backbone.
    pub decoder: &'a Arc<Decoder>,
    /// Its tokenizer and chat template.
    pub renderer: &'a Renderer,
    /// How it answers.
    pub answering: Answering<'a>,
    /// Conversations at a time.
    pub slots: usize,
    /// What drafts; plain decoding without.
    pub drafts: Option<Drafts<'a>>,
}

/// Answers all prompts that the journal does not have yet. Returns true when all are done, false when it was asked to
/// stop.
///
/// # Errors
/// When the model fails or the journal cannot be written.
pub fn distill(
    with: &Distillation<'_>,
    prompts: &[Prompt],
    journal: &mut Journal,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event),
) -> Result<bool, DistillError> {
    let (answering, slots) = (&with.answering, with.slots.max(1));
    let capacity = answering.max_tokens.min(with.decoder.config().max_positions);
    let mut batch = Batch::new(with.decoder, slots, capacity, with.drafts)?;
    let waiting = in_turn(prompts.iter().filter(|p| !journal.is_done(p.row)));
    let work = Work { renderer: with.renderer, answering, capacity };
    let active = (0..slots).map(|_| None).collect();
    let mut conversations = Conversations { work, waiting, active, journal, stop, observe };
    batch.serve(answering.rule, &mut conversations)?;
    Ok(conversations.waiting.is_empty() && conversations.active.iter().all(Option::is_none))
}

/// The conversations as requests.
struct Conversations<'a, 'j> {
    work: Work<'a>,
    waiting: VecDeque<&'a Prompt>,
    /// By slot.
    active: Vec<Option<Conversation<'a>>>,
    journal: &'j mut Journal,
    stop: &'j AtomicBool,
    observe: &'j mut dyn FnMut(Event),
}

impl Feed<'static> for Conversations<'_, '_> {
    type Error = DistillError;

    fn next(&mut self, slot: usize, read: usize) -> Result<Option<Request<'static>>, DistillError> {
        while !self.stop.load(Ordering::Relaxed) {
            let mut conversation = match self.active[slot].take() {
                Some(conversation) => conversation,
                None => match self.waiting.pop_front() {
                    Some(prompt) => self.work.open(prompt, self.journal)?,
                    None => return Ok(None),
                },
            };
            let row = conversation.prompt.row;
            match self.work.next(&mut conversation) {
                Ok(request) => {
                    self.active[slot] = Some(conversation);
                    return Ok(Some(request));
                }
                Err(reason) => {
                    self.journal.done(row, reason)?;
                    (self.observe)(Event::Conversation { row, slot: Some((slot, read)) });
                }
            }
        }
        Ok(None)
    }

    fn event(&mut self, _: usize, _: gorgon_infer::Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DistillError> {
        let Some(conversation) = &mut self.active[slot] else { return Ok(()) };
        self.work.finish(conversation, generation.ids, generation.finish, self.journal, self.observe)
    }

    fn failed(&mut self, error: DecodeError) -> DistillError {
        match error {
            DecodeError::NonFinite { slot, .. } if let Some(Some(conversation)) = self.active.get(slot) => {
                let Prompt { source, line, .. } = conversation.prompt;
                DistillError::NonFinite { source_file: source.clone(), line: *line }
            }
            error => error.into(),
        }
    }
}

/// In the order in which they are begun: the pilots, then the others; long conversations first, by the power of two of
/// their length, those of like length in their order: so the slots stay full to the end, and what is prefilled and
/// decoded together is of like length.
pub fn in_turn<'a>(prompts: impl Iterator<Item = &'a Prompt>) -> VecDeque<&'a Prompt> {
    let mut waiting: Vec<&Prompt> = prompts.collect();
    let pilots = pilots(waiting.iter().copied());
    waiting.sort_by_key(|prompt| (!pilots.contains(&prompt.row), Reverse(prompt.bytes().checked_ilog2())));
    waiting.into()
}

fn wrong(prompt: &Prompt, error: &RenderError) -> DistillError {
    let reason = format!("line {}: {error}", prompt.line);
    RunError::Damaged { path: (&prompt.source).into(), reason }.into()
}

/// The rows of all conversations with at least one answer, in order, and how many have none, by reason.
///
/// # Errors
/// When a journalled answer does not fit its prompt.
pub fn rows(
    renderer: &Renderer,
    prompts: &[Prompt],
    journal: &Journal,
) -> Result<(Vec<Row>, BTreeMap<String, usize>), DistillError> {
    let (mut rows, mut without) = (vec![], BTreeMap::new());
    for prompt in prompts {
        let mut transcript = renderer.transcript(prompt.system.as_deref()).map_err(|e| wrong(prompt, &e))?;
        let mut ends = vec![];
        for (turn, answer) in journal.answers(prompt.row).iter().enumerate() {
            let Some(user) = prompt.users.get(turn).or(answer.user.as_ref()) else { break };
            transcript.ask(user).map_err(|e| wrong(prompt, &e))?;
            transcript.answer_ids(&answer.ids).map_err(|e| wrong(prompt, &e))?;
            ends.push(format!("{}{}", answer.end, if answer.retokenised { RETOKENISED } else { "" }));
        }
        if ends.is_empty() {
            let reason = journal.reason(prompt.row).unwrap_or("no answer").to_owned();
            *without.entry(reason).or_insert(0) += 1;
            continue;
        }
        rows.push(Row {
            row: prompt.row,
            id: prompt.id.clone(),
            source: prompt.source.clone(),
            line: prompt.line,
            category: prompt.category.clone(),
            example: transcript.into_example(),
            ends,
            shard: String::new(),
        });
    }
    Ok((rows, without))
}
