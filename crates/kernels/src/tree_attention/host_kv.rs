//! The cache of one layer on the CPU.

use crate::lanes;
use std::ops::{Deref, DerefMut, Range};

/// Slots whose keys lie together, dimension by dimension, so that their scores are computed side by side.
pub(super) const SLOTS: usize = lanes::LANES;

/// One layer's cached keys and values on the CPU: values `[kv_heads][capacity][head_dim]`, keys in blocks of sixteen
/// slots, `[kv_heads][capacity / 16][head_dim][16]`.
#[derive(Clone, Debug)]
pub struct HostKv {
    keys: Lines,
    values: Lines,
    kv_heads: usize,
    capacity: usize,
    head_dim: usize,
    /// The queries of the last row that was read, `[heads · head_dim]`.
    query: Vec<f32>,
}

/// Numbers that begin on a cache line, so that no vector of a slot lies across two.
#[derive(Debug)]
struct Lines {
    /// With room for the beginning to be moved. Zeros of this type come as pages that the system hands out when they
    /// are first touched; those of an aligned type would all be written.
    values: Vec<f32>,
    start: usize,
    size: usize,
}

impl Lines {
    /// So many zeros.
    fn zeros(size: usize) -> Self {
        let values = vec![0f32; size + SLOTS];
        // Where the beginning cannot be found, any place will do.
        let start = values.as_ptr().align_offset(64);
        Self { values, start: if start < SLOTS { start } else { 0 }, size }
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.size);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Lines {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..self.start + self.size]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.size]
    }
}

impl HostKv {
    /// Room for `capacity` positions.
    pub fn new(kv_heads: usize, capacity: usize, head_dim: usize) -> Self {
        let capacity = capacity.next_multiple_of(SLOTS);
        let size = kv_heads * capacity * head_dim;
        let (keys, values) = (Lines::zeros(size), Lines::zeros(size));
        Self { keys, values, kv_heads, capacity, head_dim, query: vec![] }
    }

    /// Where a slot's value begins.
    fn at(&self, kv_head: usize, slot: usize) -> usize {
        (kv_head * self.capacity + slot) * self.head_dim
    }

    /// Where the first dimension of a slot's key is; the others follow at distances of [`SLOTS`].
    fn key_at(&self, kv_head: usize, slot: usize) -> usize {
        self.at(kv_head, slot / SLOTS * SLOTS) + slot % SLOTS
    }

    /// Positions that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// All keys of a head, `[capacity / 16][head_dim][16]`.
    pub(super) fn keys_of(&self, kv_head: usize) -> &[f32] {
        &self.keys[self.at(kv_head, 0)..self.at(kv_head + 1, 0)]
    }

    /// All values of a head, `[capacity][head_dim]`.
    pub(super) fn values_of(&self, kv_head: usize) -> &[f32] {
        &self.values[self.at(kv_head, 0)..self.at(kv_head + 1, 0)]
    }

    /// The key of one head and slot.
    pub fn key(&self, kv_head: usize, slot: usize) -> Vec<f32> {
        self.keys[self.key_at(kv_head, slot)..].iter().step_by(SLOTS).take(self.head_dim).copied().collect()
    }

    /// The value of one head and slot.
    pub fn value(&self, kv_head: usize, slot: usize) -> &[f32] {
        &self.values[self.at(kv_head, slot)..][..self.head_dim]
    }

    /// Writes one position's keys and values, `[kv_heads · head_dim]` each.
    pub fn write(&mut self, slot: usize, keys: &[f32], values: &[f32]) {
        for (head, (k, v)) in keys.chunks_exact(self.head_dim).zip(values.chunks_exact(self.head_dim)).enumerate() {
            let (key, value) = (self.key_at(head, slot), self.at(head, slot));
            for (to, &from) in self.keys[key..].iter_mut().step_by(SLOTS).zip(k) {
                *to = from;
            }
            self.values[value..value + self.head_dim].copy_from_slice(v);
        }
    }

    /// Makes room for `capacity` positions; their contents stay.
    pub fn grow(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let mut grown = Self::new(self.kv_heads, capacity, self.head_dim);
        // Both layouts are one run per head, in the order of slots.
        let (old, new) = (self.at(1, 0), grown.at(1, 0));
        for head in 0..self.kv_heads {
            grown.keys[head * new..][..old].copy_from_slice(&self.keys[head * old..][..old]);
            grown.values[head * new..][..old].copy_from_slice(&self.values[head * old..][..old]);
        }
        grown.query = std::mem::take(&mut self.query);
        *self = grown;
    }

    /// Keeps the queries of a pass's last row, after the rotary embedding: by these, parts of the cache are retrieved.
    pub fn keep_query(&mut self, query: &[f32]) {
        self.query.clear();
        self.query.extend_from_slice(query);
    }

    /// The queries of the last row that was read, `[heads · head_dim]`; empty before the first pass.
    pub fn query(&self) -> &[f32] {
        &self.query
    }

    /// Scores `q·k` of slots `0..slots` of a head, where `q [head_dim]` is the sum of the queries that it serves.
    pub fn scores(&self, kv_head: usize, slots: usize) -> Vec<f32> {
        let d = self.head_dim;
        let served = self.query.len() / self.kv_heads;
        let mut q = vec![0f32; d];
        for query in self.query[kv_head * served..(kv_head + 1) * served].chunks_exact(d) {
            q.iter_mut().zip(query).for_each(|(sum, x)| *sum += x);
        }
        let mut scores = vec![0f32; slots.next_multiple_of(SLOTS)];
        let blocks = scores.chunks_exact_mut(SLOTS).zip(self.keys_of(kv_head).chunks_exact(SLOTS * d));
        for (scores, keys) in blocks {
            for (x, keys) in q.iter().zip(keys.chunks_exact(SLOTS)) {
                scores.iter_mut().zip(keys).for_each(|(score, key)| *score += x * key);
            }
        }
        scores.truncate(slots);
        scores
    }

    /// Copies the key and the value of one head and slot of another cache of this shape.
    pub fn copy_from(&mut self, other: &Self, kv_head: usize, from: usize, to: usize) {
        let d = self.head_dim;
        let (value, to_value) = (other.at(kv_head, from), self.at(kv_head, to));
        self.values[to_value..to_value + d].copy_from_slice(&other.values[value..value + d]);
        let (key, to_key) = (other.key_at(kv_head, from), self.key_at(kv_head, to));
        for i in (0..d * SLOTS).step_by(SLOTS) {
            self.keys[to_key + i] = other.keys[key + i];
        }
    }

    /// Copies the keys and values of some slots of another cache of this shape, and the queries that it keeps.
    pub fn copy_slots(&mut self, other: &Self, slots: Range<usize>) {
        for head in 0..self.kv_heads {
            slots.clone().for_each(|slot| self.copy_from(other, head, slot, slot));
        }
        self.query.clone_from(&other.query);
    }

    /// Turns the keys of a slot back by the angles whose cosines and sines `[r / 2]` are given.
    pub fn turn_back(&mut self, slot: usize, cos: &[f32], sin: &[f32]) {
        let half = cos.len();
        for head in 0..self.kv_heads {
            let key = self.key_at(head, slot);
            for (i, (c, s)) in cos.iter().zip(sin).enumerate() {
                let (a, b) = (key + i * SLOTS, key + (i + half) * SLOTS);
                (self.keys[a], self.keys[b]) =
                    (self.keys[a] * c + self.keys[b] * s, self.keys[b] * c - self.keys[a] * s);
            }
        }
    }

    /// Key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Copies slot `from` over slot `to` in every head.
    pub fn move_slot(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        for head in 0..self.kv_heads {
            let (value, to_value) = (self.at(head, from), self.at(head, to));
            self.values.copy_within(value..value + self.head_dim, to_value);
            let (key, to_key) = (self.key_at(head, from), self.key_at(head, to));
            for i in (0..self.head_dim * SLOTS).step_by(SLOTS) {
                self.keys[to_key + i] = self.keys[key + i];
            }
        }
    }
}

#[cfg(test)]
mod tests;
