//! The learning rate over a run.

/// Linear warm-up, then half a cosine down to a floor; once more for a last part, if there is one (a warm restart,
/// Loshchilov and Hutter 2017).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps of warm-up.
    pub warmup_steps: u64,
    /// Steps in all.
    pub steps: u64,
    /// The last rate, relative to the highest.
    pub floor: f64,
    /// The last part, if the rate rises once more.
    pub restart: Option<Restart>,
}

/// A last part with a warm-up and a cosine of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restart {
    /// Its first step.
    pub at: u64,
    /// Its highest rate.
    pub peak: f64,
    /// Its steps of warm-up.
    pub warmup_steps: u64,
}

impl Schedule {
    /// The rate of step `step`, counted from 0: `peak · (step + 1) / warmup` at first, then
    /// `peak · (floor + (1 - floor) · (1 + cos(π t)) / 2)`, `t` from 0 to 1 over the steps left.
    pub fn rate(&self, step: u64) -> f64 {
        if let Some(Restart { at, peak, warmup_steps }) = self.restart {
            let part = Self { restart: None, ..*self };
            return match step.checked_sub(at) {
                None => Self { steps: at, ..part }.rate(step),
                Some(step) => Self { peak, warmup_steps, steps: self.steps.saturating_sub(at), ..part }.rate(step),
            };
        }
        if step < self.warmup_steps {
            return self.peak * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let left = self.steps.saturating_sub(self.warmup_steps).max(1);
        let t = ((step - self.warmup_steps) as f64 / left as f64).min(1.0);
        self.peak * (self.floor + (1.0 - self.floor) * 0.5 * (1.0 + (std::f64::consts::PI * t).cos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_falls_and_stays_at_the_floor() {
        let schedule = Schedule { peak: 2.0, warmup_steps: 4, steps: 104, floor: 0.1, restart: None };
        assert_eq!(schedule.rate(0), 0.5);
        assert_eq!(schedule.rate(3), 2.0);
        assert_eq!(schedule.rate(4), 2.0);
        assert!((schedule.rate(54) - 1.1).abs() < 1e-12);
        assert!((schedule.rate(104) - 0.2).abs() < 1e-12);
        assert!((schedule.rate(1000) - 0.2).abs() < 1e-12);
        assert!((0..103).all(|step| step < 4 || schedule.rate(step + 1) <= schedule.rate(step)));
        let constant = Schedule { peak: 1.0, warmup_steps: 0, steps: 10, floor: 1.0, restart: None };
        assert_eq!((constant.rate(0), constant.rate(9)), (1.0, 1.0));
    }

    #[test]
    fn a_last_part_rises_and_falls_once_more() {
        let first = Schedule { peak: 2.0, warmup_steps: 4, steps: 104, floor: 0.1, restart: None };
        let both = Schedule { steps: 154, restart: Some(Restart { at: 104, peak: 1.0, warmup_steps: 2 }), ..first };
        assert!((0..104).all(|step| both.rate(step) == first.rate(step)));
        let last = Schedule { peak: 1.0, warmup_steps: 2, steps: 50, ..first };
        assert!((104..154).all(|step| both.rate(step) == last.rate(step - 104)));
        assert_eq!(both.rate(105), 1.0);
    }
}
