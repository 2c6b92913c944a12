//! The seam between the generation loop and the ways to take its steps.

use crate::error::DecodeError;
use crate::pace::Pace;
use crate::request::Request;
use crate::timing::StepTimes;
use crate::turn::{Outcomes, Turn};
use gorgon_core::Token;

/// Outcome of reading a chunk of a request's text.
pub(crate) struct Progress {
    /// Tokens that were read.
    pub read: usize,
    /// The first new token; `None` while there is more to read.
    pub first: Option<Token>,
}

/// Takes the steps: passes launched one by one, or a step recorded on a device.
pub(crate) trait Executor {
    /// Sequences at most.
    fn slots(&self) -> usize;

    /// Tokens that a slot has read.
    fn read(&self, slot: usize) -> usize;

    /// Tokens that fit into a slot.
    fn context(&self, slot: usize) -> usize;

    /// Forgets what a slot has read, and frees its memory.
    fn forget(&mut self, _slot: usize) {}

    /// Reads on in a request's text; behind its end, picks the first new token.
    fn read_on(&mut self, slot: usize, request: &mut Request<'_>) -> Result<Progress, DecodeError>;

    /// Reads the chunk that another slot has just read, without a pass, where this request's text goes on with it too.
    /// `None` where it does not.
    fn read_along(&mut self, _slot: usize, _request: &mut Request<'_>) -> Result<Option<Progress>, DecodeError> {
        Ok(None)
    }

    /// A slot's answer ended, by itself or at its length.
    fn finished(&mut self, _slot: usize, _answer: &[Token]) {}

    /// Measured speeds of ways to draft, where trees are chosen by them.
    fn pace(&self) -> Option<&Pace> {
        None
    }

    /// One step of some slots, each named once, in increasing order.
    fn step(&mut self, turns: &mut [Turn<'_>], times: &mut StepTimes) -> Result<Outcomes, DecodeError>;
}
