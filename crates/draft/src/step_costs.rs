//! Time of steps by their rows.

use gorgon_core::mean_speed::MeanSpeed;
use std::time::Duration;

/// Time since some moment.
pub type Clock = Box<dyn FnMut() -> Duration + Send>;

/// Steps with a number of rows that are timed before their mean counts.
const TIMED: u32 = 3;

/// Plain steps that one more row is taken to cost before any drafted step was measured.
const ROW: f64 = 0.2;
/// A step that took more than so many times the time that is expected counts as that: the machine did something else.
const LONGEST: f64 = 3.0;

/// Steps with a number of rows.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    mean: MeanSpeed,
    /// False until a step was timed: the first one is slow, as it touches memory for the first time.
    is_warm: bool,
    /// True if a step of this size was timed since the last [`StepCosts::forget_unused`].
    is_used: bool,
}

/// `T(n)`: mean time of steps with `n` rows, drafting included.
#[derive(Clone, Debug)]
pub struct StepCosts {
    /// Number of rows less one.
    by_rows: Vec<Cost>,
    /// Steps that a mean counts from.
    least: u32,
}

impl Default for StepCosts {
    /// Of no times: every step takes as long as a plain one.
    fn default() -> Self {
        Self::known([])
    }
}

impl StepCosts {
    /// Of known times: rows and seconds.
    pub fn known(times: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut costs = Self { by_rows: vec![], least: 1 };
        for (rows, seconds) in times.into_iter().filter(|&(rows, _)| rows > 0) {
            let cost = costs.of(rows);
            cost.is_warm = true;
            cost.mean.add(seconds, 1.0);
        }
        costs
    }

    /// Of steps that are yet to be timed.
    pub fn timed() -> Self {
        Self { by_rows: vec![], least: TIMED }
    }

    fn of(&mut self, rows: usize) -> &mut Cost {
        if self.by_rows.len() < rows {
            self.by_rows.resize(rows, Cost::default());
        }
        &mut self.by_rows[rows - 1]
    }

    /// Notes a step. Returns the seconds that it counts for.
    pub fn add(&mut self, rows: usize, seconds: f64) -> f64 {
        let expected = self.ratio(rows) * self.plain();
        let cost = self.of(rows);
        let usual = if cost.mean.steps() > 0 { cost.mean.seconds() } else { expected };
        let seconds = if usual > 0.0 { seconds.min(LONGEST * usual) } else { seconds };
        cost.is_used = true;
        if std::mem::replace(&mut cost.is_warm, true) {
            cost.mean.add(seconds, 1.0);
        }
        seconds
    }

    /// Forgets the means of drafted steps of which none was timed since the last call: what seemed dear in a bad moment
    /// does not stay.
    pub fn forget_unused(&mut self) {
        for cost in self.by_rows.iter_mut().skip(1) {
            if !std::mem::take(&mut cost.is_used) {
                cost.mean = MeanSpeed::default();
            }
        }
    }

    /// True once enough plain steps were timed.
    pub fn knows_plain(&self) -> bool {
        self.by_rows.first().is_some_and(|cost| cost.mean.steps() >= self.least)
    }

    /// `T(1)` in seconds; 0 before the first plain step.
    pub fn plain(&self) -> f64 {
        self.by_rows.first().map_or(0.0, |cost| cost.mean.seconds())
    }

    /// Rows of the largest steps that were noted.
    pub fn largest(&self) -> usize {
        self.by_rows.len().max(1)
    }

    /// True if steps of so many rows were timed.
    pub fn knows(&self, rows: usize) -> bool {
        rows.checked_sub(1)
            .and_then(|index| self.by_rows.get(index))
            .is_some_and(|cost| cost.mean.steps() >= self.least)
    }

    /// The ratios of some numbers of rows, in words: a tilde in front of those that were not measured.
    pub(crate) fn described(&self, rows: &[usize]) -> String {
        let one = |&rows: &usize| format!("{}{:.2}", if self.knows(rows) { "" } else { "~" }, self.ratio(rows));
        rows.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// `T(n) / T(1)`, at least 1: linear between the sizes that were measured and beyond them.
    pub fn ratio(&self, rows: usize) -> f64 {
        let plain = self.plain();
        let mean =
            |index: usize| self.by_rows.get(index).map(|cost| cost.mean).filter(|mean| mean.steps() >= self.least);
        let known = |index: usize| Some((index, mean(index)?.seconds() / plain));
        if plain <= 0.0 || rows < 2 {
            return 1.0;
        }
        let below = (0..rows).rev().find_map(known).unwrap_or((0, 1.0));
        let above = (rows - 1..self.by_rows.len()).find_map(known);
        between(rows - 1, below, above).max(1.0)
    }

    /// [`Self::ratio`] of 1 to `most` rows.
    pub fn ratios(&self, most: usize) -> Vec<f64> {
        let plain = self.plain();
        let known = self.by_rows.iter().enumerate().skip(1).filter(|(_, cost)| cost.mean.steps() >= self.least);
        let known: Vec<(usize, f64)> = known.map(|(index, cost)| (index, cost.mean.seconds() / plain)).collect();
        let (mut from, mut next) = ((0, 1.0), known.iter().peekable());
        (0..most)
            .map(|index| {
                while let Some(&point) = next.next_if(|(at, _)| *at < index) {
                    from = point;
                }
                let above = next.peek().copied().copied();
                if plain <= 0.0 || index == 0 { 1.0 } else { between(index, from, above).max(1.0) }
            })
            .collect()
    }
}

/// The ratio at an index from the known ones below and above it: linear, also beyond them.
fn between(index: usize, (from, low): (usize, f64), above: Option<(usize, f64)>) -> f64 {
    match above {
        Some((to, high)) if to > from => low + (high - low) * (index - from) as f64 / (to - from) as f64,
        _ if from > 0 => low + (low - 1.0) / from as f64 * (index - from) as f64,
        _ => low + ROW * index as f64,
    }
}

#[cfg(test)]
mod tests;
