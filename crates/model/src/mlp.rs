//! The feed-forward network: gated, dense or a sparse mixture of experts.

use crate::config::ModelConfig;
use crate::layout::{LayerNames, MlpNames};
use crate::linear::{Linear, Loader};
use crate::moe::Mixture;
use crate::weights::WeightsError;
use crate::workspace::part;
use burn::tensor::Tensor;
use gorgon_kernels::activation::{self, Activation};
use gorgon_kernels::host;

/// `down(act(gate(x)) · up(x))`.
#[derive(Debug)]
pub(crate) struct Mlp {
    gate_up: Linear,
    down: Linear,
    activation: Activation,
}

impl Mlp {
    pub fn load(loader: &Loader<'_>, config: &ModelConfig, names: &MlpNames) -> Result<Self, WeightsError> {
        Ok(Self {
            gate_up: loader.linear(&names.gate_up, config.mlp_bias)?,
            down: loader.linear(std::slice::from_ref(&names.down), config.mlp_bias)?,
            activation: config.activation,
        })
    }

    /// # Shapes
    /// `x [batch, rows, d]`, result the same.
    pub fn forward(&self, x: &Tensor<3>) -> Tensor<3> {
        self.down.forward(&activation::gate(self.activation, &self.gate_up.forward(x)))
    }

    /// On the CPU.
    ///
    /// # Shapes
    /// `x [rows, d]`, `out` the same.
    fn rows(&self, x: &[f32], rows: usize, space: MlpSpace<'_>, out: &mut [f32]) {
        let width = self.gate_up.width();
        let (up, gated) = (part(space.wide, rows * width), part(space.narrow, rows * width / 2));
        self.gate_up.rows(x, up);
        activation::gate_on_team(self.activation, up, width / 2, gated);
        self.down.rows(gated, out);
    }

    pub fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }
}

/// Where a feed-forward network on the CPU writes what it needs itself.
pub(crate) struct MlpSpace<'a> {
    pub wide: &'a mut Vec<f32>,
    pub narrow: &'a mut Vec<f32>,
}

/// What stands after a layer's attention.
#[expect(clippy::large_enum_variant, reason = "a handful per layer, never moved while decoding")]
#[derive(Debug)]
pub(crate) enum FeedForward {
    Dense(Mlp),
    Mixture(Mixture),
}

impl FeedForward {
    pub fn load(loader: &Loader<'_>, config: &ModelConfig, names: &LayerNames) -> Result<Self, WeightsError> {
        match config.experts {
            Some(experts) => Mixture::load(loader, config, names, experts).map(Self::Mixture),
            None => Mlp::load(loader, config, &names.mlps[0]).map(Self::Dense),
        }
    }

    pub fn forward(&self, x: &Tensor<3>) -> Tensor<3> {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Mixture(mixture) => mixture.forward(x),
        }
    }

    /// On the CPU.
    ///
    /// # Shapes
    /// `x [rows, d]`, `out` the same.
    pub fn rows(&self, x: &[f32], rows: usize, space: MlpSpace<'_>, out: &mut [f32]) {
        match self {
            Self::Dense(mlp) => mlp.rows(x, rows, space, out),
            Self::Mixture(mixture) => {
                let y = mixture.forward(&host::tensor(x.to_vec(), [1, rows, x.len() / rows]));
                out.copy_from_slice(host::read(&y).expect("a mixture's output lives where its input does").as_slice());
            }
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense(mlp) => mlp.bytes(),
            Self::Mixture(mixture) => mixture.bytes(),
        }
    }
}
