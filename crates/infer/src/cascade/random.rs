//! The random source of a draft model's own steps.

use gorgon_core::accept::{NoiseAhead, RandomSource};

/// Another random source, with its noise or without. Without noise, plain sampling draws from the stream too.
pub(crate) struct InnerRandom<'a> {
    pub source: &'a mut dyn RandomSource,
    pub has_noise: bool,
}

impl RandomSource for InnerRandom<'_> {
    fn flip(&mut self, probability: f64) -> bool {
        self.source.flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        self.source.pick(weights)
    }

    fn set_position(&mut self, position: usize) {
        self.source.set_position(position);
    }

    fn emit(&mut self, depth: usize, weights: &[f64]) -> usize {
        if self.has_noise { self.source.emit(depth, weights) } else { self.source.pick(weights) }
    }

    fn noise(&self) -> Option<NoiseAhead> {
        if self.has_noise { self.source.noise() } else { None }
    }
}
