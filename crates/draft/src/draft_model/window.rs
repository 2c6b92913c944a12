//! The rows of a streaming cache.

use gorgon_model::target::PREFILL_CHUNK;

/// Rows that are dropped at once at least, so that not every token moves the others.
const PAGE: usize = 16;

/// A cache of the first tokens and the last ones (StreamingLLM, Xiao et al., 2023,
/// <https://arxiv.org/abs/2309.17453>). Rows are at the positions of their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamingWindow {
    /// First tokens, which stay.
    pub sinks: usize,
    /// Tokens behind them at most.
    pub recent: usize,
}

impl StreamingWindow {
    /// Rows at most, drafts not counted.
    pub fn rows(&self) -> usize {
        self.sinks + self.recent
    }

    /// Tokens that are read at once at most.
    pub(super) fn chunk(&self) -> usize {
        PREFILL_CHUNK.min(self.recent / 2).max(1)
    }

    /// Rows to be dropped of `rows` before `more` are read.
    pub(super) fn excess(&self, rows: usize, more: usize) -> usize {
        match (rows + more).saturating_sub(self.rows()) {
            0 => 0,
            over => over.max(PAGE.min(self.recent / 2)),
        }
    }
}
