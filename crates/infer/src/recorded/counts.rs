//! Counts of recorded steps.

/// Launches, reads and replays since the counts were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps.
    pub steps: usize,
    /// Reads from the device to the host in steps.
    pub reads: usize,
    /// Replays of a recorded step.
    pub replays: usize,
    /// Recordings: one per bucket of the context's length.
    pub recordings: usize,
    /// Recordings that the device refused, so that the step was run launch by launch: a failure where speed counts.
    pub fallbacks: usize,
}

impl StepCounts {
    /// The sums of both counts.
    pub fn and(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            reads: self.reads + other.reads,
            replays: self.replays + other.replays,
            recordings: self.recordings + other.recordings,
            fallbacks: self.fallbacks + other.fallbacks,
        }
    }
}
