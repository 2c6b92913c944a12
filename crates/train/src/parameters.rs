//! Parameters: named, flat, in a fixed order.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::accept::random::SeededRandom;
use gorgon_kernels::host;

/// How a parameter is treated by the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A matrix between hidden states.
    Matrix,
    /// A table of token vectors: embedding or LM head.
    Table,
    /// A bias or a norm's gain: never decayed.
    Vector,
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name in checkpoints.
    pub name: String,
    /// Its shape there.
    pub shape: Vec<usize>,
    /// How the optimizer treats it.
    pub role: Role,
    /// Its values, row-major.
    pub value: Tensor<1>,
}

impl Parameter {
    /// A parameter with given values.
    pub fn new(name: impl Into<String>, shape: &[usize], role: Role, values: Vec<f32>, device: &Device) -> Self {
        let value = from_values(values, device);
        Self { name: name.into(), shape: shape.to_vec(), role, value }
    }

    /// A matrix or table of normal values with a given standard deviation.
    pub fn normal(
        name: impl Into<String>,
        shape: [usize; 2],
        role: Role,
        deviation: f64,
        random: &mut SeededRandom,
        device: &Device,
    ) -> Self {
        let values = (0..shape[0] * shape[1]).map(|_| (normal(random) * deviation) as f32).collect();
        Self::new(name, &shape, role, values, device)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A flat tensor of these values.
pub(crate) fn from_values(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let n = values.len();
    if host::is_host(device) {
        return host::tensor(values, [n]);
    }
    Tensor::from_data(TensorData::new(values, [n]), device)
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut SeededRandom) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.uniform()).cos()
}
