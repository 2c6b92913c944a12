//! Memory that the layers of a pass on the CPU work in.

use gorgon_core::Token;
use std::cell::Cell;

/// What a pass writes on its way; kept, so that decode steps after the first allocate next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// The residual stream.
    pub stream: Vec<f32>,
    /// A normed stream.
    pub normed: Vec<f32>,
    /// What a projection up yields: queries, keys and values, or gates.
    pub wide: Vec<f32>,
    /// What a projection down reads: mixed values, or gated ones.
    pub narrow: Vec<f32>,
    /// Rotated queries, and a row of keys for each sequence.
    pub rotated: Vec<f32>,
    /// What goes onto the stream.
    pub out: Vec<f32>,
    /// The likeliest tokens.
    pub found: Vec<(Token, f32)>,
}

/// Values that are kept at most, by each thread: those of 64 rows of a 110M model. Prompts and larger models need more,
/// and take so long that fresh memory is nothing beside it.
const KEPT: usize = 1 << 20;

impl Workspace {
    /// Lends this thread's.
    pub fn lend<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static OWN: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
        }
        // Taken out, so that a pass within a pass would get one of its own.
        let mut space = OWN.take().unwrap_or_default();
        let result = work(&mut space);
        if space.values() <= KEPT {
            OWN.set(Some(space));
        }
        result
    }

    fn values(&self) -> usize {
        [&self.stream, &self.normed, &self.wide, &self.narrow, &self.rotated, &self.out].map(Vec::capacity).iter().sum()
    }
}

/// The first `size` values of a buffer, which grows if need be. They are what was there before.
pub(crate) fn part(buffer: &mut Vec<f32>, size: usize) -> &mut [f32] {
    if buffer.len() < size {
        buffer.resize(size, 0.0);
    }
    &mut buffer[..size]
}

#[cfg(test)]
mod tests;
