//! The network after a layer's attention: dense, or a sparse mixture of experts.

use crate::config::ModelConfig;
use crate::hidden_states::HiddenStates;
use crate::layout::LayerNames;
use crate::linear::Loader;
use crate::linear_output::LinearOutput;
use crate::mlp::Mlp;
use crate::moe::Mixture;
use crate::weights::WeightsError;

/// A layer's feed-forward network.
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

    /// The network applied to every row.
    ///
    /// # Shapes
    /// `x [rows, d]`, result the same.
    pub fn forward(&self, x: &HiddenStates) -> LinearOutput {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Mixture(mixture) => LinearOutput::Whole(mixture.forward(x)),
        }
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense(mlp) => mlp.bytes(),
            Self::Mixture(mixture) => mixture.bytes(),
        }
    }
}
