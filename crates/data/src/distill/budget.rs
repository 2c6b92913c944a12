//! A limit on the answer tokens of a whole job.

use super::job::Prompt;
use super::journal::Journal;

/// Stops a job at the end of a record. Which record that is depends on the answers of those before it alone: not on the
/// order in which they end, on the batch, or on interruptions.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    most: Option<u64>,
    /// Records whose answers are counted, from the first on.
    counted: usize,
    tokens: u64,
}

impl Budget {
    /// So many answer tokens; `None` is no limit.
    pub fn new(most: Option<u64>) -> Self {
        Self { most, counted: 0, tokens: 0 }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.most.is_some()
    }

    /// The number of records up to the one that reaches the limit, once all of those are answered.
    pub fn reached(&mut self, prompts: &[Prompt], journal: &Journal) -> Option<usize> {
        let most = self.most?;
        while self.tokens < most {
            let row = prompts.get(self.counted)?.row;
            if !journal.is_done(row) {
                return None;
            }
            self.tokens += journal.answers(row).iter().map(|answer| answer.ids.len() as u64).sum::<u64>();
            self.counted += 1;
        }
        Some(self.counted)
    }
}
