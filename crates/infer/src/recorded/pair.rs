//! Drafted decoding beside plain decoding, both by recorded steps.

use super::Recorded;
use super::counts::StepCounts;

/// Two ways to decode over one cache, one at a time.
#[derive(Debug)]
pub struct RecordedPair {
    plain: Recorded,
    drafted: Recorded,
}

impl RecordedPair {
    /// Plain steps beside these.
    pub fn new(drafted: Recorded) -> Self {
        Self { plain: drafted.plain_beside(), drafted }
    }

    /// The steps with drafts, or those without.
    pub fn of(&mut self, drafts: bool) -> &mut Recorded {
        if drafts { &mut self.drafted } else { &mut self.plain }
    }

    /// Counts of both since the last call.
    pub fn take_counts(&mut self) -> StepCounts {
        self.plain.take_counts().and(self.drafted.take_counts())
    }
}
