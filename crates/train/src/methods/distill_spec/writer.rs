//! How the draft model writes answers.

use crate::config::DistillSpecConfig;
use crate::error::TrainError;
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_data::shard::Row;
use gorgon_infer::{Batch, DecodeError, Event, Feed, Generation, Limits, Request};
use gorgon_model::decoder::Decoder;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Answers at a time.
const SLOTS: usize = 16;
/// Separates the random streams of answers from others of the same seed.
const ANSWERS: u64 = 0x616e_7377_6572;

/// A draft model and how it writes.
pub(super) struct Writer<'a> {
    pub decoder: &'a Arc<Decoder>,
    pub config: &'a DistillSpecConfig,
    pub seed: u64,
    /// Longest conversation.
    pub longest: usize,
    /// How long answers are.
    pub length: Length,
}

/// How long an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Until the draft model ends it.
    Own,
    /// As long as the first one of the conversation, whatever the draft model writes.
    Data,
}

impl Writer<'_> {
    /// A new first answer in each of some conversations, which end with it. Its random stream is a function of round
    /// and conversation.
    ///
    /// # Errors
    /// When the draft model fails.
    pub fn answers(
        &self,
        round: u64,
        rows: &[Row],
        indices: &[usize],
    ) -> Result<Vec<(usize, usize, Vec<Token>)>, TrainError> {
        let transform = Transform::new(self.config.temperature, None, None);
        let transform = transform.map_err(|error| TrainError::Data(error.to_string()))?;
        let rule = RuleChoice::Auto.rule(transform);
        let wrong = |error: DecodeError| self.wrong(error);
        let mut batch = Batch::new(self.decoder, SLOTS, self.longest + 1, None).map_err(wrong)?;
        let begun = (0..SLOTS).map(|_| None).collect();
        let mut answers = Answers { writer: self, round, rows, left: indices.iter(), begun, all: vec![] };
        batch.serve(rule.as_ref(), &mut answers)?;
        let order = |answer: &(usize, usize, Vec<Token>)| indices.iter().position(|&index| index == answer.0);
        answers.all.sort_by_key(order);
        Ok(answers.all)
    }

    /// The prompt of a conversation's first answer, and how many tokens a new one may have.
    fn prompt<'r>(&self, row: &'r Row) -> (&'r [Token], usize) {
        let ids = &row.example.ids;
        let prompt = row.example.assistant.iter().position(|own| *own).unwrap_or(ids.len());
        let room = self.longest.saturating_sub(prompt).min(self.config.max_new_tokens);
        let given = row.example.assistant[prompt..].iter().take_while(|own| **own).count();
        (&ids[..prompt], if self.length == Length::Data { room.min(given) } else { room })
    }

    fn wrong(&self, error: DecodeError) -> TrainError {
        TrainError::Data(match error {
            DecodeError::NonFinite { .. } => "the draft model's logits are not finite: its weights are damaged".into(),
            error => error.to_string(),
        })
    }

    /// Tokens that end an answer.
    fn end_tokens(&self) -> &[Token] {
        if self.length == Length::Own { &self.decoder.config().eos_tokens } else { &[] }
    }
}

/// Answers in the making.
struct Answers<'a> {
    writer: &'a Writer<'a>,
    round: u64,
    rows: &'a [Row],
    left: std::slice::Iter<'a, usize>,
    /// The conversation and its prompt in each slot.
    begun: Vec<Option<(usize, &'a [Token])>>,
    all: Vec<(usize, usize, Vec<Token>)>,
}

impl Feed<'static> for Answers<'_> {
    type Error = TrainError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, TrainError> {
        for &index in self.left.by_ref() {
            let (prompt, room) = self.writer.prompt(&self.rows[index]);
            if prompt.is_empty() || room == 0 {
                self.all.push((index, prompt.len(), prompt.to_vec()));
                continue;
            }
            let stream = self.round.wrapping_mul(self.rows.len() as u64).wrapping_add(index as u64);
            let limits = Limits { max_new_tokens: room, end_tokens: self.writer.end_tokens().to_vec() };
            self.begun[slot] = Some((index, prompt));
            let random = SeededRandom::stream(self.writer.seed ^ ANSWERS, stream);
            return Ok(Some(Request::new(prompt, &limits, random)));
        }
        Ok(None)
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), TrainError> {
        if let Some((index, prompt)) = self.begun[slot].take() {
            self.all.push((index, prompt.len(), [prompt, &generation.ids].concat()));
        }
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> TrainError {
        self.writer.wrong(error)
    }
}
