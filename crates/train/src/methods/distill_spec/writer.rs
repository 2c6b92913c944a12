//! How the draft model writes answers.

use crate::config::DistillSpecConfig;
use crate::error::TrainError;
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_data::shard::Row;
use gorgon_infer::batch::{Batch, BatchError, Choosing, Turn};
use gorgon_model::decoder::Decoder;
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
        let mut batch = Batch::new(self.decoder.clone(), SLOTS, self.longest + 1);
        let mut all = vec![];
        for indices in indices.chunks(SLOTS) {
            let answer = |(slot, &index): (usize, &usize)| {
                let stream = round.wrapping_mul(rows.len() as u64).wrapping_add(index as u64);
                let ids = &rows[index].example.ids;
                let prompt = rows[index].example.assistant.iter().position(|own| *own).unwrap_or(ids.len());
                let room = self.longest.saturating_sub(prompt).min(self.config.max_new_tokens);
                let given = rows[index].example.assistant[prompt..].iter().take_while(|own| **own).count();
                let room = if self.length == Length::Data { room.min(given) } else { room };
                let random = SeededRandom::stream(self.seed ^ ANSWERS, stream);
                Answer { slot, index, prompt, end: prompt + room, ids: ids[..prompt].to_vec(), random }
            };
            let mut answers: Vec<Answer> = indices.iter().enumerate().map(answer).collect();
            self.write(&mut batch, &mut answers, Choosing { rule: rule.as_ref(), end_tokens: self.end_tokens() })?;
            all.extend(answers.into_iter().map(|answer| (answer.index, answer.prompt, answer.ids)));
        }
        Ok(all)
    }

    /// Writes the answers of some conversations side by side.
    fn write(&self, batch: &mut Batch<'_>, answers: &mut [Answer], choosing: Choosing<'_>) -> Result<(), TrainError> {
        for answer in answers.iter_mut().filter(|answer| answer.prompt > 0 && answer.ids.len() < answer.end) {
            batch.reset(answer.slot);
            let first = batch.prefill(answer.slot, &answer.ids, choosing.rule, &mut answer.random).map_err(wrong)?;
            answer.ids.push(first);
        }
        loop {
            let open = answers.iter_mut().filter(|answer| self.continues(answer));
            let mut turns: Vec<Turn<'_>> = open.filter_map(Answer::turn).collect();
            if turns.is_empty() {
                return Ok(());
            }
            let outcomes = batch.step(&mut turns, choosing).map_err(wrong)?;
            let slots: Vec<usize> = turns.iter().map(|turn| turn.slot).collect();
            for (slot, outcome) in slots.into_iter().zip(outcomes) {
                answers[slot].ids.extend_from_slice(&outcome.tokens);
            }
        }
    }

    fn continues(&self, answer: &Answer) -> bool {
        let ended = answer.ids.last().is_some_and(|last| self.end_tokens().contains(last));
        answer.ids.len() > answer.prompt && answer.ids.len() < answer.end && !ended
    }

    /// Tokens that end an answer.
    fn end_tokens(&self) -> &[Token] {
        if self.length == Length::Own { &self.decoder.config().eos_tokens } else { &[] }
    }
}

fn wrong(error: BatchError) -> TrainError {
    TrainError::Data(match error {
        BatchError::NonFinite { .. } => "the draft model's logits are not finite: its weights are damaged".into(),
        error => error.to_string(),
    })
}

/// A conversation in a slot.
struct Answer {
    slot: usize,
    index: usize,
    prompt: usize,
    end: usize,
    ids: Vec<Token>,
    random: SeededRandom,
}

impl Answer {
    /// Its part in the next step.
    fn turn(&mut self) -> Option<Turn<'_>> {
        let (root, left) = (*self.ids.last()?, self.end.saturating_sub(self.ids.len()));
        Some(Turn { slot: self.slot, root, left, random: &mut self.random })
    }
}
