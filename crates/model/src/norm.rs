//! Norms with their weights where they are read.

use crate::hidden_states::HiddenStates;
use crate::linear::Loader;
use crate::linear_output::LinearOutput;
use crate::weights::WeightsError;
use burn::tensor::Tensor;
use gorgon_core::PooledVec;
use gorgon_kernels::{Isa, host, norm};

/// `x / sqrt(mean(x²) + eps) · w` over the last dimension.
#[derive(Debug)]
pub struct Norm {
    weight: Tensor<1>,
    /// The weights on the CPU; empty elsewhere.
    values: Vec<f32>,
}

impl Norm {
    /// Loads a norm's weights; `plus_one` for checkpoints that store them minus one.
    ///
    /// # Errors
    /// When the tensor is missing or cannot be read.
    pub fn load(loader: &Loader<'_>, name: &str, plus_one: bool) -> Result<Self, WeightsError> {
        loader.norm(name, plus_one).map(Self::new)
    }

    fn new(weight: Tensor<1>) -> Self {
        let values = host::read(&weight).map_or(vec![], |values| values.as_slice().to_vec());
        Self { weight, values }
    }

    /// The norm of every row.
    ///
    /// # Shapes
    /// `x [rows, d]`, result the same.
    pub fn forward(&self, x: &HiddenStates, eps: f32) -> HiddenStates {
        match x {
            HiddenStates::Host { values: x, width } => {
                let mut values = PooledVec::unset(x.len());
                self.rows(x, eps, &mut values);
                HiddenStates::Host { values, width: *width }
            }
            HiddenStates::Device(x) => HiddenStates::on_device(norm::rms_norm(x, &self.weight, eps)),
        }
    }

    /// `x + y` and the norm of that sum: one launch on a GPU, in place of `x` on the CPU.
    ///
    /// # Shapes
    /// `x [rows, d]`, `y` and both results the same.
    pub(crate) fn add_forward(&self, x: HiddenStates, y: LinearOutput, eps: f32) -> (HiddenStates, HiddenStates) {
        match x {
            HiddenStates::Device(x) => {
                let (sum, normed) = norm::add_rms_norm(*x, y.parts(), &self.weight, eps);
                (HiddenStates::on_device(sum), HiddenStates::on_device(normed))
            }
            x => {
                let sum = x + y.whole();
                let normed = self.forward(&sum, eps);
                (sum, normed)
            }
        }
    }

    /// The norm of rows on the CPU.
    ///
    /// # Shapes
    /// `x [rows, d]`, `y` the same.
    pub(crate) fn rows(&self, x: &[f32], eps: f32, y: &mut [f32]) {
        norm::rms_norm_rows(Isa::detect(), x, &self.values, eps, y);
    }

    /// The weights.
    pub(crate) fn weight(&self) -> &Tensor<1> {
        &self.weight
    }
}
