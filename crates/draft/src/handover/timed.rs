//! Costs of the other drafter's steps: as they were measured before, or by a clock while it drafts.

use crate::step_costs::{Clock, StepCosts};
use gorgon_core::mean_speed::MeanSpeed;
use std::time::Duration;

/// Weight of a new step in the means.
pub(super) const WEIGHT: f64 = 1.0 / 32.0;
/// A step that took more than so many times the mean counts as that: the machine did something else.
const LONGEST: f64 = 3.0;

/// Costs of the other drafter's steps, drafts included, over those of a plain step: `T(n) / T(1)`.
pub(super) enum OtherCosts {
    /// Measured before.
    Known(StepCosts),
    /// Measured by a clock.
    Timed(Timed),
}

/// Times steps from the first call for a draft to what was committed. In a batch that includes the drafts of the
/// sequences behind this one, so drafting counts for less than it takes there.
pub(super) struct Timed {
    clock: Clock,
    /// When the step under way began.
    began: Duration,
    /// When its drafts were there, their rows, and whether they are the other drafter's.
    drafted: Option<(Duration, usize, bool)>,
    /// True once a step has ended. The first step is not counted: it is slow, as its memory is new.
    is_warm: bool,
    /// Seconds of a plain step, by the verification of the first drafter's steps and of the other's.
    plain: [MeanSpeed; 2],
    /// Seconds of the other drafter's steps.
    other: MeanSpeed,
}

impl OtherCosts {
    /// The costs that are known, else those that a clock will tell.
    pub fn new(known: Option<StepCosts>, clock: Clock) -> Self {
        let timed = |clock| Timed {
            clock,
            began: Duration::ZERO,
            drafted: None,
            is_warm: false,
            plain: [MeanSpeed::default(); 2],
            other: MeanSpeed::default(),
        };
        known.map_or_else(|| Self::Timed(timed(clock)), Self::Known)
    }

    /// A step begins.
    pub fn begin(&mut self) {
        if let Self::Timed(timed) = self {
            (timed.began, timed.drafted) = ((timed.clock)(), None);
        }
    }

    /// The drafts of the step are there.
    pub fn drafted(&mut self, rows: usize, is_other: bool) {
        if let Self::Timed(timed) = self {
            timed.drafted = Some(((timed.clock)(), rows, is_other));
        }
    }

    /// The step has ended. Its cost; `None` where it does not count. `verified` has the costs of verification alone.
    pub fn end(&mut self, rows: usize, verified: &StepCosts) -> Option<f64> {
        match self {
            Self::Known(costs) => Some(costs.ratio(rows)),
            Self::Timed(timed) => timed.end(verified),
        }
    }

    /// Nothing is under way any more.
    pub fn forget(&mut self) {
        if let Self::Timed(timed) = self {
            timed.drafted = None;
        }
    }
}

impl Timed {
    /// Seconds of a plain step. Drafters that run layers of the target verify in less time, so steps of the first
    /// drafter tell it once there are some.
    fn plain(&self) -> f64 {
        let [first, other] = self.plain;
        if first.steps() > 0 { first.seconds() } else { other.seconds() }
    }

    fn end(&mut self, verified: &StepCosts) -> Option<f64> {
        let (drafted, rows, is_other) = self.drafted.take()?;
        let now = (self.clock)();
        if !std::mem::replace(&mut self.is_warm, true) {
            return None;
        }
        let seconds = |since: Duration| now.saturating_sub(since).as_secs_f64().max(f64::MIN_POSITIVE);
        add(&mut self.plain[usize::from(is_other)], seconds(drafted) / verified.ratio(rows));
        // The ratio is kept, not the seconds: a machine that slows down slows both.
        is_other.then(|| add(&mut self.other, seconds(self.began)) / self.plain())
    }
}

/// Adds seconds to a mean. Returns those that count.
fn add(mean: &mut MeanSpeed, seconds: f64) -> f64 {
    let seconds = if mean.steps() > 0 { seconds.min(LONGEST * mean.seconds()) } else { seconds };
    mean.add_slowly(WEIGHT, seconds, 1.0);
    seconds
}
