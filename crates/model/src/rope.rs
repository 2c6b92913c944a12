//! Rotary position embedding: frequencies, their scaling, and the table of cosines and sines.

/// How rotary frequencies are stretched for contexts longer than the pretraining's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: high frequencies stay, low ones are divided by the factor, those between are interpolated.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original_length / low` are divided by the factor.
        low: f64,
        /// Wavelengths below `original_length / high` stay.
        high: f64,
        /// Context length of the pretraining, in tokens.
        original_length: f64,
    },
    /// YaRN: dimensions that turn often within the original context stay, those that turn seldom are divided by the
    /// factor, those between are mixed along a ramp.
    Yarn {
        /// The factor.
        factor: f64,
        /// Turns within the original context from which on a dimension stays (`beta_fast`).
        fast: f64,
        /// Turns up to which a dimension is divided by the factor (`beta_slow`).
        slow: f64,
        /// Context length of the pretraining, in tokens.
        original_length: f64,
        /// Factor of all cosines and sines; its square is the temperature of the attention.
        attention: f64,
        /// Whether the ramp ends at whole dimensions.
        truncate: bool,
    },
}

/// What YaRN multiplies cosines and sines by unless a config says otherwise: `0.1 · ln(factor) + 1`.
pub fn yarn_attention(factor: f64, scale: f64) -> f64 {
    if factor > 1.0 { 0.1 * scale * factor.ln() + 1.0 } else { 1.0 }
}

/// Rotary settings of a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies: `θ^(-2i/r)`.
    pub theta: f64,
    /// Rotated dimensions of a head, r.
    pub rotary_dim: usize,
    /// Stretching.
    pub scaling: RopeScaling,
}

impl RopeConfig {
    /// The `r / 2` frequencies, in radians per position.
    pub fn frequencies(&self) -> Vec<f32> {
        let plain = |i: usize| 1.0 / (self.theta as f32).powf(2.0 * i as f32 / self.rotary_dim as f32);
        (0..self.rotary_dim / 2).map(|i| self.stretch(i, plain(i))).collect()
    }

    /// What all cosines and sines are multiplied by.
    pub fn attention(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn { attention, .. } => attention as f32,
            _ => 1.0,
        }
    }

    /// The dimension that turns `turns` times within a context of `length` tokens.
    fn dimension_of(&self, turns: f64, length: f64) -> f64 {
        let dims = self.rotary_dim as f64;
        dims * (length / (turns * std::f64::consts::TAU)).ln() / (2.0 * self.theta.ln())
    }

    fn stretch(&self, i: usize, frequency: f32) -> f32 {
        match self.scaling {
            RopeScaling::None => frequency,
            RopeScaling::Linear { factor } => frequency / factor as f32,
            RopeScaling::Llama3 { factor, low, high, original_length } => {
                let wavelength = std::f64::consts::TAU / f64::from(frequency);
                if wavelength < original_length / high {
                    frequency
                } else if wavelength > original_length / low {
                    frequency / factor as f32
                } else {
                    let smooth = (original_length / wavelength - low) / (high - low);
                    let f = f64::from(frequency);
                    ((1.0 - smooth) * f / factor + smooth * f) as f32
                }
            }
            RopeScaling::Yarn { factor, fast, slow, original_length, truncate, .. } => {
                let (mut low, mut high) =
                    (self.dimension_of(fast, original_length), self.dimension_of(slow, original_length));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, high) = (low.max(0.0), high.min(self.rotary_dim as f64 - 1.0));
                // A ramp of no length would divide by zero.
                let length = if high == low { 0.001 } else { high - low };
                let divided = ((i as f64 - low) / length).clamp(0.0, 1.0);
                let f = f64::from(frequency);
                (divided * f / factor + (1.0 - divided) * f) as f32
            }
        }
    }
}

/// Cosines and sines of every position of a context.
#[derive(Clone, Debug)]
pub struct RopeTable {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl RopeTable {
    /// The table for positions `0..positions`. Angles are `f32` products, as checkpoints were trained with.
    pub fn new(config: &RopeConfig, positions: usize) -> Self {
        let (frequencies, attention) = (config.frequencies(), config.attention());
        let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f32 * f));
        let (sin, cos) = angles.map(f32::sin_cos).map(|(sin, cos)| (sin * attention, cos * attention)).unzip();
        Self { cos, sin, half: frequencies.len() }
    }

    /// Number of angles per position, `r / 2`.
    pub fn half(&self) -> usize {
        self.half
    }

    /// Number of positions.
    pub fn positions(&self) -> usize {
        self.cos.len() / self.half
    }

    /// All cosines and all sines, position by position.
    pub fn into_parts(self) -> (Vec<f32>, Vec<f32>) {
        (self.cos, self.sin)
    }

    /// Cosines and sines of one position.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

#[cfg(test)]
mod tests;
