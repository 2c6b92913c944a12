//! The feed-forward network: gated, dense or a sparse mixture of experts.

use crate::config::ModelConfig;
use crate::layout::{LayerNames, MlpNames};
use crate::linear::{Linear, Loader};
use crate::moe::Mixture;
use crate::weights::WeightsError;
use burn::tensor::Tensor;
use gorgon_kernels::activation::{self, Activation};

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

    pub fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }
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

    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense(mlp) => mlp.bytes(),
            Self::Mixture(mixture) => mixture.bytes(),
        }
    }
}
