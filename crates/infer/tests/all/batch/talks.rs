//! Sequences of several turns, in a batch and alone.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_infer::{Batch, DecodeError, Drafts, Event, Feed, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tokens of a sequence at most.
pub const TOKENS: usize = 90;
/// Tokens of an answer at most.
pub const NEW_TOKENS: usize = 17;
/// Tokens that end an answer.
pub const END: [Token; 12] = [3, 17, 40, 77, 90, 111, 140, 171, 199, 230, 255, 290];

/// A sequence: what is asked, turn by turn.
pub fn questions(n: usize) -> Vec<Vec<Vec<Token>>> {
    let question = |i: usize, turn: usize| {
        let length = 1 + (i * 5 + turn * 3) % 11;
        (0..length).map(|t| ((i * 31 + turn * 7 + t * t) % 60) as Token).collect()
    };
    (0..n).map(|i| (0..1 + i % 3).map(|turn| question(i, turn)).collect()).collect()
}

pub fn rule(temperature: f64) -> Box<dyn AcceptanceRule + Send + Sync> {
    RuleChoice::Auto.rule(transform(temperature))
}

pub fn transform(temperature: f64) -> Transform {
    Transform::new(temperature, None, None).unwrap()
}

/// Chance of an answer.
pub fn chance(sequence: usize, turn: usize) -> SeededRandom {
    SeededRandom::stream(9, (sequence * 16 + turn) as u64)
}

/// How much an answer after so many tokens may have.
pub fn room(read: usize) -> usize {
    NEW_TOKENS.min(TOKENS - read)
}

/// A sequence in a slot.
pub struct Talk {
    index: usize,
    /// Questions and answers.
    ids: Vec<Token>,
    /// Tokens of `ids` when the last question was asked.
    asked: usize,
    answers: Vec<Vec<Token>>,
    events: Vec<Token>,
}

/// Sequences as requests, those that are left to the slots that are free.
pub struct Talks<'q> {
    all: &'q [Vec<Vec<Token>>],
    begun: usize,
    active: Vec<Option<Talk>>,
    pub answers: Vec<Vec<Vec<Token>>>,
    /// Tokens that came beyond one a step.
    beyond: usize,
    /// Tokens that were read before first answers.
    pub read: usize,
    /// Drafts that were accepted in each step of first answers.
    pub accepted: Vec<Vec<usize>>,
}

impl<'q> Talks<'q> {
    pub fn new(all: &'q [Vec<Vec<Token>>], slots: usize) -> Self {
        let active = (0..slots).map(|_| None).collect();
        Self {
            all,
            begun: 0,
            active,
            answers: vec![vec![]; all.len()],
            beyond: 0,
            read: 0,
            accepted: vec![vec![]; all.len()],
        }
    }
}

impl Feed<'static> for Talks<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, read: usize) -> Result<Option<Request<'static>>, DecodeError> {
        loop {
            let mut talk = match self.active[slot].take() {
                Some(talk) => {
                    // The slot holds the talk: all but the last token of the last answer, whatever ended it.
                    assert_eq!(read, talk.ids.len() - 1);
                    talk
                }
                None if self.begun < self.all.len() => {
                    self.begun += 1;
                    Talk { index: self.begun - 1, ids: vec![], asked: 0, answers: vec![], events: vec![] }
                }
                None => return Ok(None),
            };
            let turn = talk.answers.len();
            match self.all[talk.index].get(turn) {
                Some(question) => {
                    talk.ids.extend(question);
                    talk.asked = talk.ids.len();
                    let limits = Limits { max_new_tokens: room(talk.ids.len()), end_tokens: END.to_vec() };
                    let request = Request::new(&talk.ids, &limits, chance(talk.index, turn));
                    self.active[slot] = Some(talk);
                    return Ok(Some(request));
                }
                None => self.answers[talk.index] = talk.answers,
            }
        }
    }

    fn event(&mut self, slot: usize, event: Event) -> ControlFlow<()> {
        self.active[slot].as_mut().unwrap().events.extend(event.token());
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        let talk = self.active[slot].as_mut().unwrap();
        assert_eq!(std::mem::take(&mut talk.events), generation.ids);
        if !talk.answers.is_empty() {
            // Nothing is read twice: the last token that was emitted, and the question.
            let turn = talk.answers.len();
            assert_eq!(generation.read, 1 + self.all[talk.index][turn].len());
        }
        if talk.answers.is_empty() {
            self.read += generation.read;
            self.accepted[talk.index].clone_from(&generation.accepted);
        }
        self.beyond += generation.ids.len() - 1 - generation.accepted.len();
        talk.ids.extend(&generation.ids);
        talk.answers.push(generation.ids);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// The answers of all sequences in a batch, and the tokens that came beyond one a step.
pub fn together(
    batch: &mut Batch<'_>,
    all: &[Vec<Vec<Token>>],
    rule: &dyn AcceptanceRule,
) -> (Vec<Vec<Vec<Token>>>, usize) {
    let mut talks = Talks::new(all, batch.slots());
    batch.serve(rule, &mut talks).unwrap();
    (talks.answers, talks.beyond)
}

/// Sequence by sequence and turn by turn, each read from its first token on.
pub fn alone(
    decoder: &Arc<Decoder>,
    with: Option<Drafts<'_>>,
    all: &[Vec<Vec<Token>>],
    rule: &dyn AcceptanceRule,
) -> Vec<Vec<Vec<Token>>> {
    let mut go_on = |_| ControlFlow::Continue(());
    let sequence = |(index, questions): (usize, &Vec<Vec<Token>>)| {
        let mut ids = vec![];
        let mut answers = vec![];
        for (turn, question) in questions.iter().enumerate() {
            ids.extend(question);
            let limits = Limits { max_new_tokens: room(ids.len()), end_tokens: END.to_vec() };
            let random = &mut chance(index, turn);
            let answer = match with {
                None => {
                    let mut target = DecoderTarget::new(decoder.clone(), TOKENS, Hooks::none());
                    decode(&mut target, &ids, rule, random, &limits, &mut go_on).unwrap().ids
                }
                Some(Drafts { drafter, tree }) => {
                    let mut drafter = drafter();
                    let hooks = drafter.needs().hooks;
                    let mut target = DecoderTarget::new(decoder.clone(), TOKENS, hooks);
                    let (target, drafter) = (&mut target, drafter.as_mut());
                    Session::new(target, drafter)
                        .generate(Method { tree, rule }, Request::new(&ids, &limits, random), &mut go_on)
                        .unwrap()
                        .ids
                }
            };
            ids.extend(&answer);
            answers.push(answer);
        }
        answers
    };
    all.iter().enumerate().map(sequence).collect()
}
