//! Which positions go into which step, drawn in a random order from a buffer of bounded size.

use crate::pack::shuffle;
use gorgon_core::accept::random::SeededRandom;
use std::sync::{Arc, Mutex, PoisonError};

/// Separates this order's random streams from others of the same seed.
const ORDER: u64 = 0x706f_7369_7469_6f6e;

/// Positions of many conversations, in a new order in every epoch. What is in a step is a function of its number alone.
///
/// The conversations are dealt out to as many streams as a step has micro-batches. In every epoch a stream reads its
/// conversations in a random order, a buffer of them at a time. The positions of a buffer are drawn in a random order,
/// as many in each step: of `n` positions and `s` steps in an epoch, step `i` draws numbers `i·n/s .. (i + 1)·n/s`. So
/// an epoch has every position once. A stream whose conversations fit into one buffer keeps it through all epochs.
#[derive(Debug)]
pub struct Shuffle {
    streams: Vec<Stream>,
    steps_per_epoch: u64,
    seed: u64,
}

/// The name of a buffer: its content is a function of this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId {
    /// The stream.
    pub stream: usize,
    /// The epoch; 0 where a stream has one buffer for all of them.
    pub epoch: u64,
    /// Number in the epoch.
    pub number: usize,
}

/// A position of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Its conversation.
    pub conversation: usize,
    /// Its number among the positions of the conversation.
    pub position: usize,
    /// Its row in the buffer, where conversations follow one another.
    pub row: usize,
}

/// Positions that a step draws from a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The buffer.
    pub buffer: BufferId,
    /// The positions.
    pub draws: Vec<Draw>,
}

/// Conversations whose positions one micro-batch of each step draws.
#[derive(Debug)]
struct Stream {
    /// Conversations with the numbers of their positions.
    conversations: Vec<(usize, usize)>,
    positions: usize,
    /// Positions of a buffer, at most, unless a single conversation has more.
    capacity: usize,
    last: Mutex<Last>,
}

/// Orders looked at last: making one takes a moment.
#[derive(Debug, Default)]
struct Last {
    epoch: Option<(u64, Arc<Vec<Buffer>>)>,
    rows: Option<(BufferOfEpoch, RowOrder)>,
}

/// Epoch and number of a buffer.
type BufferOfEpoch = (u64, usize);
/// The order in which the rows of a buffer are drawn.
type RowOrder = Arc<Vec<u32>>;

#[derive(Debug)]
struct Buffer {
    conversations: Vec<usize>,
    /// For each conversation, its first row; then the number of all rows.
    starts: Vec<usize>,
    /// Positions of the epoch before its first one.
    before: usize,
}

impl Buffer {
    fn of(conversations: &[(usize, usize)], before: usize) -> Self {
        let mut starts = vec![0];
        for (_, positions) in conversations {
            starts.push(starts[starts.len() - 1] + positions);
        }
        Self { conversations: conversations.iter().map(|(conversation, _)| *conversation).collect(), starts, before }
    }

    fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    fn draw(&self, row: usize) -> Draw {
        let of = self.starts.partition_point(|start| *start <= row) - 1;
        Draw { conversation: self.conversations[of], position: row - self.starts[of], row }
    }
}

impl Shuffle {
    /// Order of conversations with these numbers of positions. `buffer` positions are in memory at once, at most, in
    /// `streams` equal parts.
    pub fn new(positions: &[usize], buffer: usize, streams: usize, steps_per_epoch: u64, seed: u64) -> Self {
        let streams = streams.max(1);
        let mut all: Vec<(usize, usize)> = positions.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
        // The last stream of the seed: the others are those of epochs.
        shuffle(&mut all, &mut SeededRandom::stream(seed ^ ORDER, u64::MAX));
        let stream = |number: usize| {
            let mut conversations: Vec<_> = all.iter().skip(number).step_by(streams).copied().collect();
            // The data's own order makes reading a file of states sequential.
            conversations.sort_unstable();
            let positions = conversations.iter().map(|(_, n)| n).sum();
            Stream { conversations, positions, capacity: buffer.div_ceil(streams).max(1), last: Mutex::default() }
        };
        Self { streams: (0..streams).map(stream).collect(), steps_per_epoch: steps_per_epoch.max(1), seed }
    }

    /// Positions of each micro-batch of step `step`: usually of one buffer, of two where a buffer ends.
    pub fn step(&self, step: u64) -> Vec<Vec<Drawn>> {
        (0..self.streams.len()).map(|stream| self.draw(stream, step)).collect()
    }

    /// The conversations of a buffer, in the order of its rows.
    pub fn conversations(&self, id: BufferId) -> Vec<usize> {
        self.buffers(id.stream, id.epoch)[id.number].conversations.clone()
    }

    /// True if the buffer has room for all positions, so that nothing is read again after the first epoch.
    pub fn is_whole(&self) -> bool {
        self.streams.iter().all(Stream::is_whole)
    }

    /// Positions of a stream's buffer, at most.
    pub fn largest_buffer(&self) -> usize {
        self.streams.iter().map(Stream::most).max().unwrap_or(0)
    }

    fn draw(&self, number: usize, step: u64) -> Vec<Drawn> {
        let (epoch, step) = (step / self.steps_per_epoch, step % self.steps_per_epoch);
        let stream = &self.streams[number];
        let at = |step: u64| (u128::from(step) * stream.positions as u128 / u128::from(self.steps_per_epoch)) as usize;
        let (mut next, end) = (at(step), at(step + 1));
        let buffers = self.buffers(number, epoch);
        let mut drawn = vec![];
        while next < end {
            let of = buffers.partition_point(|buffer| buffer.before <= next) - 1;
            let buffer = &buffers[of];
            let upto = end.min(buffer.before + buffer.len());
            let order = self.order(number, epoch, (of, buffer.len()));
            let rows = &order[next - buffer.before..upto - buffer.before];
            let draws = rows.iter().map(|row| buffer.draw(*row as usize)).collect();
            let kept = if stream.is_whole() { 0 } else { epoch };
            drawn.push(Drawn { buffer: BufferId { stream: number, epoch: kept, number: of }, draws });
            next = upto;
        }
        drawn
    }

    fn random(&self, stream: usize, epoch: u64, part: usize) -> SeededRandom {
        let stream = epoch.wrapping_mul(self.streams.len() as u64).wrapping_add(stream as u64);
        SeededRandom::stream(self.seed ^ ORDER, (stream << 24).wrapping_add(part as u64))
    }

    /// The buffers of a stream in an epoch.
    fn buffers(&self, number: usize, epoch: u64) -> Arc<Vec<Buffer>> {
        let stream = &self.streams[number];
        let mut last = stream.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, buffers)) = &last.epoch
            && (*known == epoch || stream.is_whole())
        {
            return buffers.clone();
        }
        let buffers = Arc::new(stream.lay_out(&mut self.random(number, epoch, 0)));
        last.epoch = Some((epoch, buffers.clone()));
        buffers
    }

    /// The order in which the rows of a buffer are drawn.
    fn order(&self, number: usize, epoch: u64, (buffer, rows): (usize, usize)) -> RowOrder {
        let mut last = self.streams[number].last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, order)) = &last.rows
            && *known == (epoch, buffer)
        {
            return order.clone();
        }
        let mut order: Vec<u32> = (0..rows as u32).collect();
        shuffle(&mut order, &mut self.random(number, epoch, buffer + 1));
        let order = Arc::new(order);
        last.rows = Some(((epoch, buffer), order.clone()));
        order
    }
}

impl Stream {
    fn is_whole(&self) -> bool {
        self.positions <= self.capacity
    }

    fn most(&self) -> usize {
        let longest = self.conversations.iter().map(|(_, n)| *n).max().unwrap_or(0);
        self.positions.min(self.capacity.max(longest))
    }

    fn lay_out(&self, random: &mut SeededRandom) -> Vec<Buffer> {
        if self.is_whole() {
            return vec![Buffer::of(&self.conversations, 0)];
        }
        let mut order = self.conversations.clone();
        shuffle(&mut order, random);
        let (mut buffers, mut first, mut rows, mut before) = (vec![], 0, 0, 0);
        for (i, (_, positions)) in order.iter().enumerate() {
            if rows + positions > self.capacity && rows > 0 {
                buffers.push(Buffer::of(&order[first..i], before));
                (first, before, rows) = (i, before + rows, 0);
            }
            rows += positions;
        }
        buffers.push(Buffer::of(&order[first..], before));
        buffers
    }
}

#[cfg(test)]
mod tests;
