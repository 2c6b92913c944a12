//! The learning rate over a run.

/// Linear warm-up, then half a cosine down to a least rate. A last part repeats both (a warm restart, Loshchilov and
/// Hutter 2017).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps of warm-up.
    pub warmup_steps: u64,
    /// Steps in all.
    pub steps: u64,
    /// The last rate, relative to the highest.
    pub min_lr_ratio: f64,
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
    /// `peak · (m + (1 - m) · (1 + cos(π t)) / 2)`, `t` from 0 to 1 over the steps left,
    /// `m` the [`Self::min_lr_ratio`].
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
        self.peak * (self.min_lr_ratio + (1.0 - self.min_lr_ratio) * 0.5 * (1.0 + (std::f64::consts::PI * t).cos()))
    }
}

#[cfg(test)]
mod tests;
