//! Self-distillation: the backbone answers each user's turn, and its own tokens become the training data.
//!
//! Answers are journalled one by one as they end, so that a kill loses those under way and nothing else, and shards are
//! made of the journal when all are there. An answer depends on its conversation, the model, the sampling and the seed,
//! but on the CPU not on the batch that it was decoded in.

mod budget;
mod client;
mod conversation;
mod job;
mod journal;
mod order;
mod serving;

pub use budget::Budget;
pub use client::{Client, Question, Served, Serving, Trouble};
pub use job::{Answering, DistillError, END_TOKEN, Event, GIVEN, LENGTH, Prompt, RETOKENISED};
pub use journal::{Answer, Journal};
pub use order::{in_turn, sample};
pub use serving::{Servers, serve};

use crate::render::Renderer;
use crate::shard::Row;
use conversation::{Conversation, Work};
use gorgon_infer::{Batch, DecodeError, Drafts, Feed, Generation, Request};
use gorgon_model::decoder::Decoder;
use job::wrong;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Drafter of the answers; `None` decodes plainly.
    pub drafts: Option<Drafts<'a>>,
    /// Limit of all answers.
    pub budget: Budget,
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
    let waiting = order::to_come(prompts, journal, &with.budget);
    let work = Work { renderer: with.renderer, answering, capacity };
    let active = (0..slots).map(|_| None).collect();
    let budget = (prompts, with.budget);
    let mut conversations = Conversations { work, waiting, active, journal, budget, stop, observe };
    batch.serve(answering.rule, &mut conversations)?;
    let all = conversations.waiting.is_empty() && conversations.active.iter().all(Option::is_none);
    Ok(all || conversations.is_over())
}

/// The conversations as requests.
struct Conversations<'a, 'j> {
    work: Work<'a>,
    waiting: VecDeque<&'a Prompt>,
    /// By slot.
    active: Vec<Option<Conversation<'a>>>,
    journal: &'j mut Journal,
    /// All prompts, and the limit of their answers.
    budget: (&'a [Prompt], Budget),
    stop: &'j AtomicBool,
    observe: &'j mut dyn FnMut(Event),
}

impl Conversations<'_, '_> {
    /// Whether the answers reach the limit.
    fn is_over(&mut self) -> bool {
        let (prompts, budget) = &mut self.budget;
        budget.reached(prompts, self.journal).is_some()
    }
}

impl Feed<'static> for Conversations<'_, '_> {
    type Error = DistillError;

    fn next(&mut self, slot: usize, read: usize) -> Result<Option<Request<'static>>, DistillError> {
        while !self.stop.load(Ordering::Relaxed) && !self.is_over() {
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
        let mut transcript =
            renderer.transcript_with(prompt.system.as_deref(), prompt.tools.as_ref()).map_err(|e| wrong(prompt, &e))?;
        let mut ends = vec![];
        for (turn, answer) in journal.answers(prompt.row).iter().enumerate() {
            let Some(user) = prompt.users.get(turn).or(answer.user.as_ref()) else { break };
            transcript.ask_with(user, prompt.calls(turn)).map_err(|e| wrong(prompt, &e))?;
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
            key: prompt.key,
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
