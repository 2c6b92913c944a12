//! Time and tokens of steps of a kind.

/// Weight of a new measurement in the moving means.
const WEIGHT: f64 = 0.1;

/// Moving means of the time and the tokens of steps. The first ones count alike, later ones for a tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanSpeed {
    steps: u32,
    seconds: f64,
    tokens: f64,
    /// Mean of the squared tokens.
    squares: f64,
    /// Sum of the squared weights of the steps: one over the number of alike steps that would tell as much.
    weights: f64,
}

impl MeanSpeed {
    /// Adds a step.
    pub fn add(&mut self, seconds: f64, tokens: f64) {
        self.add_slowly(WEIGHT, seconds, tokens);
    }

    /// Adds a step that counts for `least` of the means once there are many: less than a tenth where steps differ much.
    pub fn add_slowly(&mut self, least: f64, seconds: f64, tokens: f64) {
        let weight = least.max(1.0 / f64::from(self.steps.saturating_add(1)));
        self.seconds += weight * (seconds - self.seconds);
        self.tokens += weight * (tokens - self.tokens);
        self.squares += weight * (tokens * tokens - self.squares);
        self.weights = (1.0 - weight).powi(2) * self.weights + weight * weight;
        self.steps = self.steps.saturating_add(1);
    }

    /// Steps that were added.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Seconds of a step; 0 before the first one.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Tokens of a step, those of all sequences together; 0 before the first one.
    pub fn tokens(&self) -> f64 {
        self.tokens
    }

    /// Standard error of [`Self::tokens`]: the deviation of single steps times the root of the sum of squared weights.
    pub fn tokens_error(&self) -> f64 {
        ((self.squares - self.tokens * self.tokens).max(0.0) * self.weights).sqrt()
    }

    /// Tokens per second after `least` steps or more.
    pub fn rate(&self, least: u32) -> Option<f64> {
        (self.steps >= least && self.seconds > 0.0).then(|| self.tokens / self.seconds)
    }
}

#[cfg(test)]
mod tests;
