//! Hidden states in memory, from which steps draw single positions.

use crate::error::TrainError;
use gorgon_data::shuffle::{BufferId, Drawn, Shuffle};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Hidden states of a buffer of conversations for each micro-batch of a step, in the host's memory. A buffer is
/// computed by the first step that draws from it, and dropped by the first that does not. So every conversation is read
/// once in an epoch, and a resumed run computes the buffer that it resumes in.
#[derive(Debug)]
pub struct ShuffleBuffer {
    shuffle: Shuffle,
    /// Positions of each conversation that are drawn.
    positions: Vec<Vec<usize>>,
    loaded: Vec<Mutex<Loaded>>,
    /// Whether steps are discarded: then no buffer is computed.
    dry_run: AtomicBool,
}

/// A stream's states.
#[derive(Debug, Default)]
struct Loaded {
    buffer: Option<(BufferId, Vec<f32>)>,
    /// The states of the last step that was drawn: halves of a micro-batch take their parts of them.
    step: Option<(u64, Vec<f32>)>,
}

/// Positions that a micro-batch draws, or some of them.
#[derive(Clone, Debug)]
pub struct DrawnRows {
    step: u64,
    stream: usize,
    drawn: Arc<Vec<Drawn>>,
    range: Range<usize>,
}

impl DrawnRows {
    /// Number of positions.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// True without positions.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Both halves; `None` for a single position.
    pub(super) fn halves(&self) -> Option<(Self, Self)> {
        let middle = self.range.start + self.len() / 2;
        let part = |range| Self { range, ..self.clone() };
        (self.len() > 1).then(|| (part(self.range.start..middle), part(middle..self.range.end)))
    }

    /// Step and micro-batch.
    pub(super) fn place(&self) -> (u64, usize) {
        (self.step, self.stream)
    }
}

impl ShuffleBuffer {
    /// Empty buffers for these positions of each conversation: `buffer` of them in memory at once, at most, in equal
    /// parts for the `streams` micro-batches of a step.
    pub fn new(positions: Vec<Vec<usize>>, buffer: usize, streams: usize, steps_per_epoch: u64, seed: u64) -> Self {
        let counts: Vec<usize> = positions.iter().map(Vec::len).collect();
        let shuffle = Shuffle::new(&counts, buffer, streams, steps_per_epoch, seed);
        let loaded = (0..streams.max(1)).map(|_| Mutex::default()).collect();
        Self { shuffle, positions, loaded, dry_run: AtomicBool::new(false) }
    }

    /// Whether all states are in memory from the first epoch on.
    pub(super) fn is_whole(&self) -> bool {
        self.shuffle.is_whole()
    }

    /// Conversation and position of drawn rows, in their order.
    pub fn places(&self, rows: &DrawnRows) -> Vec<(usize, usize)> {
        let all = rows.drawn.iter().flat_map(|part| &part.draws);
        let drawn = all.skip(rows.range.start).take(rows.range.len());
        drawn.map(|draw| (draw.conversation, self.positions[draw.conversation][draw.position])).collect()
    }

    /// The micro-batches of a step.
    pub(super) fn batches(&self, step: u64) -> Vec<DrawnRows> {
        let rows = |(stream, drawn): (usize, Vec<Drawn>)| {
            let range = 0..drawn.iter().map(|part| part.draws.len()).sum();
            DrawnRows { step, stream, drawn: Arc::new(drawn), range }
        };
        self.shuffle.step(step).into_iter().enumerate().map(rows).collect()
    }

    /// Begins or ends a dry run, in which no buffer is computed.
    pub(super) fn set_dry_run(&self, dry_run: bool) {
        self.dry_run.store(dry_run, Ordering::Relaxed);
    }

    /// Whether steps are discarded.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run.load(Ordering::Relaxed)
    }

    /// Bytes of a micro-batch's buffer, at most, with states of `width` values.
    pub(super) fn bytes(&self, width: usize) -> u64 {
        4 * (self.shuffle.largest_buffer() * width) as u64
    }

    /// States of `width` values at drawn positions, one after another. `read` appends the states of a conversation.
    ///
    /// # Errors
    /// As of `read`.
    pub(super) fn states(
        &self,
        rows: &DrawnRows,
        width: usize,
        read: impl Fn(usize, &mut Vec<f32>) -> Result<(), TrainError>,
    ) -> Result<Vec<f32>, TrainError> {
        let mut loaded = self.loaded[rows.stream].lock().unwrap_or_else(PoisonError::into_inner);
        let part = |all: &[f32]| all[rows.range.start * width..rows.range.end * width].to_vec();
        if let Some((step, states)) = &loaded.step
            && *step == rows.step
        {
            return Ok(part(states));
        }
        loaded.step = None;
        let mut states = Vec::with_capacity(rows.drawn.iter().map(|part| part.draws.len()).sum::<usize>() * width);
        for Drawn { buffer, draws } in rows.drawn.iter() {
            let buffer = self.load(&mut loaded, *buffer, width, &read)?;
            draws.iter().for_each(|draw| states.extend_from_slice(&buffer[draw.row * width..][..width]));
        }
        let all = part(&states);
        loaded.step = Some((rows.step, states));
        Ok(all)
    }

    /// The states of a buffer: those in memory, or computed in their place.
    fn load<'a>(
        &self,
        loaded: &'a mut Loaded,
        id: BufferId,
        width: usize,
        read: &impl Fn(usize, &mut Vec<f32>) -> Result<(), TrainError>,
    ) -> Result<&'a [f32], TrainError> {
        if loaded.buffer.as_ref().is_none_or(|(known, _)| *known != id) {
            let last = loaded.buffer.take().map(|(_, states)| states);
            // The memory of the last buffer serves the next one.
            let mut states = last.unwrap_or_else(|| Vec::with_capacity(self.shuffle.largest_buffer() * width));
            states.clear();
            for conversation in self.shuffle.conversations(id) {
                read(conversation, &mut states)?;
            }
            loaded.buffer = Some((id, states));
        }
        Ok(loaded.buffer.as_ref().map_or(&[], |(_, states)| states))
    }
}

#[cfg(test)]
mod tests;
