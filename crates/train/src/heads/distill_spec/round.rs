//! Answers that the draft model writes while it is fitted.

use crate::config::DistillSpecConfig;
use crate::error::{TrainError, io};
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_infer::{Batch, DecodeError, Event, Feed, Generation, Limits, Request};
use gorgon_model::decoder::Decoder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Answers at a time.
const SLOTS: usize = 16;
/// Keeps these answers apart from other chance of the same seed.
const ANSWERS: u64 = 0x616e_7377_6572;

/// What was written for the steps of one round.
pub(super) struct Round {
    pub number: u64,
    examples: BTreeMap<usize, Arc<Example>>,
}

/// A round on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Hash of the parameters that wrote it.
    parameters: String,
    /// Conversation, tokens of its prompt, all tokens.
    answers: Vec<(usize, usize, Vec<Token>)>,
}

fn path(run: &Path, number: u64) -> PathBuf {
    run.join(format!("answers-{number:06}.json"))
}

impl Stored {
    fn read(run: &Path, number: u64) -> Result<Option<Self>, TrainError> {
        let path = path(run, number);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(io(&path))?;
        let wrong = |error: serde_json::Error| TrainError::Checkpoint { path: path.clone(), reason: error.to_string() };
        serde_json::from_slice(&bytes).map(Some).map_err(wrong)
    }

    fn write(&self, run: &Path, number: u64) -> Result<(), TrainError> {
        let path = path(run, number);
        let written = gorgon_runs::atomic::write(&path, |file| Ok(serde_json::to_writer(file, self)?));
        written.map_err(io(&path))
    }

    fn into_round(self, number: u64) -> Round {
        let example = |(index, prompt, ids): (usize, usize, Vec<Token>)| {
            let assistant = (0..ids.len()).map(|t| t >= prompt).collect();
            (index, Arc::new(Example { ids, assistant }))
        };
        Round { number, examples: self.answers.into_iter().map(example).collect() }
    }
}

impl Round {
    /// The number of one that is no round of a run.
    pub const REHEARSED: u64 = u64::MAX;

    /// What was written for steps that are only tried, beside what was known of others.
    pub fn rehearsed(known: Option<Self>, answers: Vec<(usize, usize, Vec<Token>)>) -> Self {
        let mut round = Stored { parameters: String::new(), answers }.into_round(Self::REHEARSED);
        for (index, example) in known.into_iter().flat_map(|known| known.examples) {
            round.examples.entry(index).or_insert(example);
        }
        round
    }

    /// The round of parameters with this hash: what a run that was killed after it was written left, or what `write`
    /// gives.
    pub fn at_first_step(
        number: u64,
        parameters: String,
        run: Option<&Path>,
        write: impl FnOnce(u64) -> Result<Vec<(usize, usize, Vec<Token>)>, TrainError>,
    ) -> Result<Self, TrainError> {
        let stored = run.map(|run| Stored::read(run, number)).transpose()?.flatten();
        if let Some(stored) = stored.filter(|stored| stored.parameters == parameters) {
            return Ok(stored.into_round(number));
        }
        let stored = Stored { parameters, answers: write(number)? };
        run.map(|run| stored.write(run, number)).transpose()?;
        Ok(stored.into_round(number))
    }

    /// The round that a resumed run is in the midst of.
    pub fn kept(number: u64, run: Option<&Path>) -> Result<Self, TrainError> {
        let stored = run.map(|run| Stored::read(run, number)).transpose()?.flatten();
        let gone = || {
            let path = run.map_or_else(PathBuf::new, |run| path(run, number));
            TrainError::Checkpoint { path, reason: "it is gone, and the steps that are left need it".into() }
        };
        stored.map(|stored| stored.into_round(number)).ok_or_else(gone)
    }

    /// What was written in some conversations.
    pub fn of(&self, rows: &[usize], step: u64) -> Result<Vec<Arc<Example>>, TrainError> {
        let gone = |row: &usize| TrainError::Data(format!("step {step}: no answer was written for conversation {row}"));
        rows.iter().map(|row| self.examples.get(row).cloned().ok_or_else(|| gone(row))).collect()
    }
}

/// The draft model as it is, and how it writes.
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
    /// As long as the first one of the conversation, whatever the draft model says.
    Data,
}

impl Writer<'_> {
    /// A new first answer in each of some conversations, which end with it. An answer's chance is its own, by round and
    /// conversation.
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
