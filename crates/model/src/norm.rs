//! Norms with their weights where they are read.

use crate::linear::Loader;
use crate::weights::WeightsError;
use burn::tensor::Tensor;
use gorgon_kernels::{Isa, host, norm};

/// `x / sqrt(mean(x²) + eps) · w` over the last dimension.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Tensor<1>,
    /// The same on the CPU; empty elsewhere.
    values: Vec<f32>,
}

impl Norm {
    /// # Errors
    /// When the tensor is missing or cannot be read.
    pub fn load(loader: &Loader<'_>, name: &str, plus_one: bool) -> Result<Self, WeightsError> {
        loader.norm(name, plus_one).map(Self::new)
    }

    fn new(weight: Tensor<1>) -> Self {
        let values = host::read(&weight).map_or(vec![], |values| values.as_slice().to_vec());
        Self { weight, values }
    }

    /// Of rows on the CPU.
    ///
    /// # Shapes
    /// `x [rows, d]`, `y` the same.
    pub fn rows(&self, x: &[f32], eps: f32, y: &mut [f32]) {
        norm::rms_norm_rows(Isa::detect(), x, &self.values, eps, y);
    }

    /// The weights.
    pub fn weight(&self) -> &Tensor<1> {
        &self.weight
    }
}
