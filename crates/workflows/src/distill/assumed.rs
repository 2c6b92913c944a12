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
    /// Whether anything is declared.
    pub(super) fn is_none(&self) -> bool {
        self.tokens.is_none() && self.bandwidth.is_none()
    }

    /// Seconds of so many new tokens of some conversations, where the rate is declared: each step reads the weights once,
    /// and the caches of the conversations that are decoded at a time, which are half full on average.
    pub(super) fn seconds(
        &self,
        tokens: u64,
        conversations: usize,
        capacity: usize,
        room: &MemoryBudget,
    ) -> Option<f64> {
        let at_once = room.slots.min(conversations).max(1);
        let steps = tokens as f64 / at_once as f64;
        let caches = room.per_token as f64 * (at_once * capacity) as f64 / 2.0;
        self.bandwidth.map(|rate| steps * (room.weights as f64 + caches) / (rate * 1e9))
    }
}
