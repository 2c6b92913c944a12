//! Self-distillation: the backbone answers each user's turn, and its own tokens become the training data.
//!
//! Answers are journalled one by one as they end, so that a kill loses those in flight and nothing else, and shards are
//! made of the journal when all are there. An answer depends on its conversation, the model, the sampling and the seed,
//! but on the CPU not on the batch that it was decoded in.

mod client;
mod journal;
mod serving;

pub use client::Serving;
pub use journal::{Answer, Journal};
pub use serving::{Servers, serve};

use crate::render::{RenderError, Renderer, Transcript};
use crate::shard::Row;
use gorgon_core::Token;
use gorgon_core::accept::draws::Seeded;
use gorgon_core::accept::{AcceptanceRule, DraftRows, Rows};
use gorgon_core::dist::Row as Scores;
use gorgon_core::tree::TokenTree;
use gorgon_infer::batch::Batch;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_runs::RunError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why distillation stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] RunError),
    /// The model's scores are no scores.
    #[error("{source_file} line {line}: the model's logits are not finite: its weights are damaged")]
    Unsound {
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

/// How long answers and conversations may get, and how they are drawn.
pub struct Answering<'a> {
    /// New tokens in an answer, at most.
    pub max_new_tokens: usize,
    /// Tokens in a conversation, at most.
    pub max_tokens: usize,
    /// Turns that the model makes up for the user after the given ones.
    pub self_talk_turns: usize,
    /// Picks tokens.
    pub rule: &'a dyn AcceptanceRule,
    /// Seed of all chance; every answer has its own stream.
    pub seed: u64,
}

/// What is told while distilling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer of so many tokens ended.
    Answer(usize),
    /// A conversation is done.
    Conversation,
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
    let mut batch = Batch::new(with.decoder.clone(), slots, capacity);
    let mut waiting: VecDeque<&Prompt> = prompts.iter().filter(|p| !journal.is_done(p.row)).collect();
    let work = Work { renderer: with.renderer, answering, capacity };
    let mut active: Vec<Option<Talk<'_>>> = (0..slots).map(|_| None).collect();
    let mut all_done = true;
    loop {
        for (slot, talk) in active.iter_mut().enumerate() {
            while talk.is_none() && !stop.load(Ordering::Relaxed) {
                let Some(prompt) = waiting.pop_front() else { break };
                batch.reset(slot);
                *talk = work.go_on(work.open(prompt, journal)?, slot, &mut batch, journal, observe)?;
            }
        }
        let last = |(slot, talk): (usize, &Option<Talk<'_>>)| Some((slot, *talk.as_ref()?.answer.last()?));
        let feed: Vec<(usize, Token)> = active.iter().enumerate().filter_map(last).collect();
        if feed.is_empty() {
            return Ok(all_done && waiting.is_empty());
        }
        let logits = batch.step(&feed)?;
        let vocab = logits.len() / feed.len();
        for ((slot, _), row) in feed.iter().zip(logits.chunks_exact(vocab)) {
            let Some(mut talk) = active[*slot].take() else { continue };
            work.pick(&mut talk, row)?;
            let Some(end) = work.ended(&talk) else {
                active[*slot] = Some(talk);
                continue;
            };
            work.finish(&mut talk, end, *slot, &mut batch, journal, observe)?;
            if stop.load(Ordering::Relaxed) {
                all_done = false;
            } else {
                active[*slot] = work.go_on(talk, *slot, &mut batch, journal, observe)?;
            }
        }
    }
}

/// A conversation in a slot.
struct Talk<'a> {
    prompt: &'a Prompt,
    transcript: Transcript<'a>,
    turn: usize,
    /// What the model made up for the user, after the given turns.
    made_up: Vec<String>,
    /// Whether the tokens in the making are a user's turn, not an answer.
    asking: bool,
    answer: Vec<Token>,
    draws: Seeded,
    /// How the last answer ended.
    last_end: &'static str,
}

impl Talk<'_> {
    /// The user's part of a turn, if there is one yet.
    fn user(&self, turn: usize) -> Option<&str> {
        let given = &self.prompt.users;
        given.get(turn).or_else(|| self.made_up.get(turn.checked_sub(given.len())?)).map(String::as_str)
    }
}

/// What is the same for all conversations.
struct Work<'a> {
    renderer: &'a Renderer,
    answering: &'a Answering<'a>,
    capacity: usize,
}

impl<'a> Work<'a> {
    /// A conversation with the answers that the journal has.
    fn open(&self, prompt: &'a Prompt, journal: &Journal) -> Result<Talk<'a>, DistillError> {
        let transcript = self.renderer.transcript(prompt.system.as_deref());
        // Without a template there is no system prompt to be had; the prompts were checked for that.
        let transcript = match transcript {
            Ok(transcript) => transcript,
            Err(_) => self.renderer.transcript(None).map_err(|e| wrong(prompt, &e))?,
        };
        let draws = Seeded::new(0);
        let (made_up, answer) = (vec![], vec![]);
        let mut talk = Talk { prompt, transcript, turn: 0, made_up, asking: false, answer, draws, last_end: END_TOKEN };
        for answer in journal.answers(prompt.row) {
            talk.made_up.extend(answer.user.clone());
            let Some(user) = talk.user(talk.turn).map(str::to_owned) else { break };
            if talk.transcript.ask(&user).and_then(|()| talk.transcript.answer_ids(&answer.ids)).is_err() {
                break;
            }
            talk.last_end = if answer.end == LENGTH { LENGTH } else { END_TOKEN };
            talk.turn += 1;
        }
        Ok(talk)
    }

    /// Begins the next answer, if there is another turn that fits; a conversation without one is done.
    fn go_on(
        &self,
        mut talk: Talk<'a>,
        slot: usize,
        batch: &mut Batch,
        journal: &mut Journal,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Option<Talk<'a>>, DistillError> {
        loop {
            if let Err(why) = self.begin(&mut talk, slot, batch)? {
                journal.done(talk.prompt.row, why)?;
                observe(Event::Conversation);
                return Ok(None);
            }
            match self.ended(&talk) {
                None => return Ok(Some(talk)),
                Some(end) => self.finish(&mut talk, end, slot, batch, journal, observe)?,
            }
        }
    }

    /// Reads up to where the next answer (or the next user's turn to be made up) begins, and picks its first token. The
    /// inner error says why there is none, if a reason is worth telling.
    fn begin(
        &self,
        talk: &mut Talk<'a>,
        slot: usize,
        batch: &mut Batch,
    ) -> Result<Result<(), Option<String>>, DistillError> {
        // An answer that was cut off leaves nothing to reply to.
        if talk.last_end == LENGTH {
            return Ok(Err(None));
        }
        let user = talk.user(talk.turn).map(str::to_owned);
        let last_turn = talk.prompt.users.len() + self.answering.self_talk_turns;
        let asked = match &user {
            Some(user) => talk.transcript.ask(user).map(|()| vec![]),
            None if talk.turn < last_turn => talk.transcript.user_opening(),
            None => return Ok(Err(None)),
        };
        let opening = match asked {
            Ok(opening) => opening,
            Err(error) => return Ok(Err(Some(error.to_string()))),
        };
        let unread = [&talk.transcript.example().ids[batch.len(slot)..], &opening].concat();
        let length = batch.len(slot) + unread.len();
        if length + 1 > self.capacity {
            return Ok(Err(Some(format!("no room for turn {} in {} tokens", talk.turn + 1, self.capacity))));
        }
        let logits = batch.prefill(slot, &unread)?;
        talk.answer.clear();
        talk.asking = user.is_none();
        let stream = talk.prompt.row << 16 | (talk.turn as u64) << 1 | u64::from(talk.asking);
        talk.draws = Seeded::stream(self.answering.seed, stream);
        self.pick(talk, &logits)?;
        Ok(Ok(()))
    }

    fn pick(&self, talk: &mut Talk<'_>, logits: &[f32]) -> Result<(), DistillError> {
        if !Scores::Logits(logits).is_sound() {
            let Prompt { source, line, .. } = talk.prompt;
            return Err(DistillError::Unsound { source_file: source.clone(), line: *line });
        }
        let root = TokenTree::root(talk.answer.last().copied().unwrap_or_default());
        let rows = Rows::Logits { data: logits, vocab: logits.len() };
        let verdict = self.answering.rule.accept(&root, DraftRows::NONE, rows, &mut talk.draws);
        talk.answer.push(verdict.bonus);
        Ok(())
    }

    fn ended(&self, talk: &Talk<'_>) -> Option<&'static str> {
        let full = talk.transcript.example().ids.len() + talk.answer.len() >= self.capacity;
        if talk.answer.last().is_some_and(|last| self.renderer.end_tokens().contains(last)) {
            Some(END_TOKEN)
        } else if full || talk.answer.len() >= self.answering.max_new_tokens {
            Some(LENGTH)
        } else {
            None
        }
    }

    fn finish(
        &self,
        talk: &mut Talk<'_>,
        end: &'static str,
        slot: usize,
        batch: &mut Batch,
        journal: &mut Journal,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), DistillError> {
        let mut ids = std::mem::take(&mut talk.answer);
        if talk.asking {
            ids.truncate(ids.len() - usize::from(end == END_TOKEN));
            let text = self.renderer.text().decode(&ids, true).map_err(|e| wrong(talk.prompt, &e.into()))?;
            // What was made up is read again as any user's turn would be, so its own tokens are dropped.
            batch.truncate(slot, talk.transcript.example().ids.len());
            talk.asking = false;
            match text.trim() {
                "" => talk.last_end = LENGTH,
                text => talk.made_up.push(text.to_owned()),
            }
            return Ok(());
        }
        talk.transcript.answer_ids(&ids).map_err(|error| wrong(talk.prompt, &error))?;
        observe(Event::Answer(ids.len()));
        let made_up = talk.turn.checked_sub(talk.prompt.users.len()).and_then(|i| talk.made_up.get(i)).cloned();
        journal.answer(Answer {
            row: talk.prompt.row,
            turn: talk.turn,
            ids,
            end: end.into(),
            user: made_up,
            retokenised: false,
        })?;
        (talk.turn, talk.last_end) = (talk.turn + 1, end);
        Ok(())
    }
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
