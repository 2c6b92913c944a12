//! The time of a distillation from facts that the user declares.

use super::memory_budget::MemoryBudget;

/// Facts that a plan cannot know, as the user declares them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assumed {
    /// New tokens in all; as many as the config allows without.
    pub tokens: Option<u64>,
    /// Bytes per second that the device reads from its memory, in units of 10⁹; time is unknown without.
    pub bandwidth: Option<f64>,
}

impl Assumed {
    /// Seconds of so many new tokens, where the rate is declared: each step reads the weights once, and the caches of all
    /// conversations, which are half full on average.
    pub(super) fn seconds(&self, tokens: u64, capacity: usize, room: &MemoryBudget) -> Option<f64> {
        let steps = tokens as f64 / room.slots.max(1) as f64;
        let caches = room.per_token as f64 * (room.slots * capacity) as f64 / 2.0;
        self.bandwidth.map(|rate| steps * (room.weights as f64 + caches) / (rate * 1e9))
    }
}
