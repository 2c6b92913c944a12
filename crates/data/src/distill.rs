//! Self-distillation: the backbone answers each user's turn, and its own tokens become the training data.
//!
//! Answers are journalled one by one as they end, so that a kill loses those in flight and nothing else, and shards are
//! made of the journal when all are there. An answer depends on its conversation, the model, the sampling and the seed,
//! but on the CPU not on the batch that it was decoded in.

mod client;
mod job;
mod journal;
mod order;
mod serving;
mod talk;

pub use client::Serving;
pub use job::{Answering, DistillError, END_TOKEN, Event, GIVEN, LENGTH, Prompt, RETOKENISED};
pub use journal::{Answer, Journal};
pub use order::{in_turn, pilots};
pub use serving::{Servers, serve};

use crate::render::Renderer;
use crate::shard::Row;
use gorgon_infer::batch::{Batch, BatchError, Choosing, Drafts, Turn};
use gorgon_model::decoder::Decoder;
use job::wrong;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use talk::{Talk, Work};

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
    let mut batch = Batch::drafted(with.decoder.clone(), slots, capacity, with.drafts);
    let mut waiting = in_turn(prompts.iter().filter(|p| !journal.is_done(p.row)));
    let work = Work { renderer: with.renderer, answering, capacity };
    let choosing = Choosing { rule: answering.rule, end_tokens: with.renderer.end_tokens() };
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
        let going = active.iter_mut().enumerate();
        let mut turns: Vec<Turn<'_>> = going.filter_map(|(slot, talk)| work.turn(slot, talk.as_mut()?)).collect();
        if turns.is_empty() {
            return Ok(all_done && waiting.is_empty());
        }
        let outcomes = batch.step(&mut turns, choosing);
        let fed: Vec<usize> = turns.iter().map(|turn| turn.slot).collect();
        for (slot, outcome) in fed.into_iter().zip(outcomes.map_err(|error| placed(error, &active))?) {
            let Some(mut talk) = active[slot].take() else { continue };
            talk.emit(&outcome.tokens);
            let Some(end) = work.ended(&talk) else {
                active[slot] = Some(talk);
                continue;
            };
            work.finish(&mut talk, end, slot, &mut batch, journal, observe)?;
            if stop.load(Ordering::Relaxed) {
                all_done = false;
            } else {
                active[slot] = work.go_on(talk, slot, &mut batch, journal, observe)?;
            }
        }
    }
}

/// An error of a step, with the prompt at which it came up.
fn placed(error: BatchError, active: &[Option<Talk<'_>>]) -> DistillError {
    match error {
        BatchError::NonFinite { slot } if let Some(Some(talk)) = active.get(slot) => talk.placed(error),
        error => error.into(),
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
