//! Time of steps by their rows.

use gorgon_core::mean_speed::MeanSpeed;

/// Plain steps that one more row costs, at least, beyond the sizes that were measured.
const ROW: f64 = 0.2;
/// A step that took more than so many times the mean of its size counts as that: the machine did something else.
const LONGEST: f64 = 3.0;

/// `T(n)`: mean time of steps with `n` rows, drafting included.
#[derive(Clone, Debug, Default)]
pub struct StepCosts {
    /// Number of rows less one.
    by_rows: Vec<MeanSpeed>,
}

impl StepCosts {
    /// Of known times: rows and seconds.
    pub fn known(times: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut costs = Self::default();
        for (rows, seconds) in times.into_iter().filter(|&(rows, _)| rows > 0) {
            costs.add(rows, seconds);
        }
        costs
    }

    /// Notes a step. Returns the seconds that it counts for.
    pub fn add(&mut self, rows: usize, seconds: f64) -> f64 {
        if self.by_rows.len() < rows {
            self.by_rows.resize(rows, MeanSpeed::default());
        }
        let mean = &mut self.by_rows[rows - 1];
        let seconds = if mean.steps() > 0 { seconds.min(LONGEST * mean.seconds()) } else { seconds };
        mean.add(seconds, 1.0);
        seconds
    }

    /// Plain steps that were noted.
    pub fn plain_steps(&self) -> u32 {
        self.by_rows.first().map_or(0, MeanSpeed::steps)
    }

    /// `T(1)` in seconds; 0 before the first plain step.
    pub fn plain(&self) -> f64 {
        self.by_rows.first().map_or(0.0, MeanSpeed::seconds)
    }

    /// Rows of the largest steps that were noted.
    pub fn largest(&self) -> usize {
        self.by_rows.len().max(1)
    }

    /// `T(n) / T(1)`, at least 1: linear between the sizes that were measured and beyond them.
    pub fn ratio(&self, rows: usize) -> f64 {
        let plain = self.plain();
        let at = |index: usize| self.by_rows.get(index).filter(|mean| mean.steps() > 0).map(MeanSpeed::seconds);
        let known = |index: usize| Some((index, at(index)? / plain));
        if plain <= 0.0 || rows < 2 {
            return 1.0;
        }
        let below = (0..rows).rev().find_map(known).unwrap_or((0, 1.0));
        let above = (rows - 1..self.by_rows.len()).find_map(known);
        let (from, low) = below;
        let ratio = match above {
            Some((to, high)) if to > from => low + (high - low) * (rows - 1 - from) as f64 / (to - from) as f64,
            _ => low + f64::max(ROW, (low - 1.0) / from.max(1) as f64) * (rows - 1 - from) as f64,
        };
        ratio.max(1.0)
    }
}

#[cfg(test)]
mod tests;
