//! Prompts for a batch.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{DecodeError, Event, Feed, Generation, Limits, Request};
use std::ops::ControlFlow;

pub const NEW: usize = 12;

/// Answers by prompt.
pub struct Prompts<'a> {
    prompts: &'a [&'a [Token]],
    begun: usize,
    in_slot: [usize; 2],
    pub answers: Vec<Vec<Token>>,
}

impl<'a> Prompts<'a> {
    pub fn new(prompts: &'a [&'a [Token]]) -> Self {
        Self { prompts, begun: 0, in_slot: [0; 2], answers: vec![vec![]; prompts.len()] }
    }
}

impl Feed<'static> for Prompts<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        let Some(prompt) = self.prompts.get(self.begun) else { return Ok(None) };
        self.in_slot[slot] = self.begun;
        self.begun += 1;
        let limits = Limits { max_new_tokens: NEW, end_tokens: vec![] };
        Ok(Some(Request::new(prompt, &limits, SeededRandom::new(1))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        self.answers[self.in_slot[slot]] = generation.ids;
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}
