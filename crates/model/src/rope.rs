//! Rotary position embedding: frequencies, their scaling, and the table of cosines and sines.

use burn::tensor::{Device, Tensor, TensorData};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How rotary frequencies are stretched for contexts longer than the pretraining's.
#[derive(Clone, Debug, PartialEq)]
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
    /// LongRoPE within the original context: every frequency is divided by a factor of its own. The factors for longer
    /// texts would turn the keys that a cache holds, so such texts are refused.
    LongRope {
        /// The divisors, one per frequency (`short_factor`).
        divisors: Arc<[f32]>,
        /// Context length of the pretraining, in tokens.
        original_length: f64,
        /// Factor of all cosines and sines.
        attention: f64,
    },
}

/// Factor of cosines and sines under YaRN unless a config names one: `0.1 · ln(factor) + 1`.
pub fn yarn_attention(factor: f64, scale: f64) -> f64 {
    if factor > 1.0 { 0.1 * scale * factor.ln() + 1.0 } else { 1.0 }
}

/// Factor of cosines and sines under LongRoPE unless a config names one: `√(1 + ln(factor) / ln(original length))`.
pub fn long_attention(factor: f64, original_length: f64) -> f64 {
    if factor > 1.0 { (1.0 + factor.ln() / original_length.ln()).sqrt() } else { 1.0 }
}

/// Rotary settings of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies: `θ^(-2i/r)`.
    pub theta: f64,
    /// Rotated dimensions of a head, r.
    pub rotary_dim: usize,
    /// Stretching.
    pub scaling: RopeScaling,
}

impl RopeConfig {
    /// The settings for heads of which so many dimensions are rotated. LongRoPE's divisors are those of the frequencies
    /// that a model rotates, so for other heads there is no scaling.
    pub fn for_heads(&self, rotary_dim: usize) -> Self {
        let scaling = match self.scaling {
            RopeScaling::LongRope { .. } if rotary_dim != self.rotary_dim => RopeScaling::None,
            _ => self.scaling.clone(),
        };
        Self { theta: self.theta, rotary_dim, scaling }
    }

    /// The `r / 2` frequencies, in radians per position.
    pub fn frequencies(&self) -> Vec<f32> {
        let wavelength = |i: usize| (self.theta as f32).powf(2.0 * i as f32 / self.rotary_dim as f32);
        let stretched = |i: usize| match &self.scaling {
            RopeScaling::LongRope { divisors, .. } => 1.0 / (divisors.get(i).unwrap_or(&1.0) * wavelength(i)),
            _ => self.stretch(i, 1.0 / wavelength(i)),
        };
        (0..self.rotary_dim / 2).map(stretched).collect()
    }

    /// Factor of all cosines and sines.
    pub fn attention(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn { attention, .. } | RopeScaling::LongRope { attention, .. } => attention as f32,
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
            RopeScaling::None | RopeScaling::LongRope { .. } => frequency,
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

/// Positions whose angles are computed together.
const CHUNK: usize = 256;

/// The angles of [`CHUNK`] positions: for each position its cosines, then its sines.
type Chunk = OnceLock<Box<[f32]>>;

/// Cosines and sines of positions, computed when they are first read. Reads take no lock.
#[derive(Debug)]
pub struct RopeTable {
    frequencies: Vec<f32>,
    attention: f32,
    /// Bucket `b` has the chunks `2^b - 1 .. 2^(b + 1) - 1`, so a table has no last position.
    buckets: [OnceLock<Box<[Chunk]>>; 32],
}

impl RopeTable {
    /// An empty table. Angles are products in `f32`, as checkpoints were trained with.
    pub fn new(config: &RopeConfig) -> Self {
        let (frequencies, attention) = (config.frequencies(), config.attention());
        Self { frequencies, attention, buckets: [const { OnceLock::new() }; 32] }
    }

    /// Number of angles per position, `r / 2`.
    pub fn half(&self) -> usize {
        self.frequencies.len()
    }

    /// Cosines and sines of one position.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.half();
        self.chunk(position / CHUNK)[position % CHUNK * 2 * half..][..2 * half].split_at(half)
    }

    /// Computes the angles of positions `0..positions`.
    pub fn reserve(&self, positions: usize) {
        (0..positions.div_ceil(CHUNK)).for_each(|chunk| {
            self.chunk(chunk);
        });
    }

    /// Cosines and sines of a turn by so many positions, without the factor that lengthens what is rotated.
    pub fn turn(&self, positions: usize) -> (Vec<f32>, Vec<f32>) {
        let angles = self.frequencies.iter().map(|f| positions as f32 * f);
        (angles.clone().map(f32::cos).collect(), angles.map(f32::sin).collect())
    }

    /// All cosines and all sines of positions `0..positions`.
    ///
    /// # Shapes
    /// `[positions, r / 2]` each.
    pub fn values(&self, positions: usize) -> (Vec<f32>, Vec<f32>) {
        let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = (0..positions).map(|position| self.at(position)).unzip();
        (cos.concat(), sin.concat())
    }

    fn chunk(&self, chunk: usize) -> &[f32] {
        let bucket = (chunk + 1).ilog2();
        let size = 1usize << bucket;
        let chunks = self.buckets[bucket as usize].get_or_init(|| (0..size).map(|_| OnceLock::new()).collect());
        chunks[chunk + 1 - size].get_or_init(|| self.angles(chunk * CHUNK..(chunk + 1) * CHUNK))
    }

    fn angles(&self, positions: Range<usize>) -> Box<[f32]> {
        let mut values = Vec::with_capacity(positions.len() * 2 * self.half());
        for position in positions {
            let angles = self.frequencies.iter().map(|f| position as f32 * f);
            values.extend(angles.clone().map(|angle| angle.cos() * self.attention));
            values.extend(angles.map(|angle| angle.sin() * self.attention));
        }
        values.into()
    }
}

/// The rotary embedding of one decoder: one table of angles, shared by all caches.
#[derive(Debug)]
pub(crate) struct Rope {
    table: RopeTable,
    /// The first positions' angles on each device other than the CPU that asked for them.
    on_device: Mutex<Vec<Tensor<3>>>,
}

impl Rope {
    /// A rotary embedding whose angles are computed when they are needed.
    pub fn new(config: &RopeConfig) -> Arc<Self> {
        Arc::new(Self { table: RopeTable::new(config), on_device: Mutex::new(vec![]) })
    }

    /// The angles on the CPU.
    pub fn table(&self) -> &RopeTable {
        &self.table
    }

    /// The angles of at least the first `positions` positions on `device`. The tensor is shared; one that is too short is
    /// replaced, and those who hold it keep it.
    ///
    /// # Shapes
    /// Result `[positions or more, 2, r / 2]`: cosines, then sines.
    pub fn on_device(&self, positions: usize, device: &Device) -> Tensor<3> {
        let mut shared = self.on_device.lock().unwrap_or_else(PoisonError::into_inner);
        let held = shared.iter().position(|angles| angles.device() == *device);
        if let Some(angles) = held.map(|held| &shared[held]).filter(|angles| angles.dims()[0] >= positions) {
            return angles.clone();
        }
        let (positions, half) = (positions.next_multiple_of(CHUNK), self.table.half());
        let values: Vec<f32> = (0..positions / CHUNK).flat_map(|chunk| self.table.chunk(chunk)).copied().collect();
        let size = values.len();
        let angles = Tensor::<1>::from_data(TensorData::new(values, [size]), device).reshape([positions, 2, half]);
        match held {
            Some(held) => shared[held] = angles.clone(),
            None => shared.push(angles.clone()),
        }
        angles
    }
}

#[cfg(test)]
mod tests;
