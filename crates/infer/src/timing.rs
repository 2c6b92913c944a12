//! Where the time of a step goes.

use std::time::{Duration, Instant};

/// Time spent on one part of all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopwatch(pub Duration);

impl Stopwatch {
    /// Adds the time that `work` takes.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.0 += started.elapsed();
        done
    }
}

/// The parts of all steps of a generation. What a generation takes beyond their sum is the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Proposing trees.
    pub draft: Stopwatch,
    /// The target's pass over the tree and its logits.
    pub verify: Stopwatch,
    /// Choosing a path.
    pub accept: Stopwatch,
    /// Keeping its cache rows, and telling the drafter.
    pub commit: Stopwatch,
}

impl StepTimes {
    /// The time of all parts.
    pub fn total(&self) -> Duration {
        self.draft.0 + self.verify.0 + self.accept.0 + self.commit.0
    }
}

impl std::ops::AddAssign for StepTimes {
    fn add_assign(&mut self, other: Self) {
        self.draft.0 += other.draft.0;
        self.verify.0 += other.verify.0;
        self.accept.0 += other.accept.0;
        self.commit.0 += other.commit.0;
    }
}
