//! The feed-forward network, with a gate or without.

use crate::config::ModelConfig;
use crate::hidden_states::HiddenStates;
use crate::layout::MlpNames;
use crate::linear::{Linear, Loader};
use crate::linear_output::LinearOutput;
use crate::weights::WeightsError;
use gorgon_core::PooledVec;
use gorgon_kernels::activation::{self, Activation};

/// `down(act(gate(x)) · up(x))`; without a gate `down(relu(up(x)))`.
#[derive(Debug)]
pub(crate) struct Mlp {
    gate_up: Linear,
    down: Linear,
    /// Of the gate, if there is one.
    activation: Option<Activation>,
}

impl Mlp {
    pub fn load(loader: &Loader<'_>, config: &ModelConfig, names: &MlpNames) -> Result<Self, WeightsError> {
        Ok(Self {
            gate_up: loader.linear(&names.gate_up, config.mlp_bias)?,
            down: loader.linear(std::slice::from_ref(&names.down), config.mlp_bias)?,
            activation: config.gated_mlp.then_some(config.activation),
        })
    }

    /// The network applied to every row.
    ///
    /// # Shapes
    /// `x [rows, d]`, result the same.
    pub fn forward(&self, x: &HiddenStates) -> LinearOutput {
        let inner = self.gate_up.output(x);
        let inner = match self.activation {
            Some(activation) => gate(activation, inner),
            None => relu(inner.whole()),
        };
        self.down.output(&inner)
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }
}

/// `act(gate) · up`.
///
/// # Shapes
/// `gate_up [rows, 2 · f]`, result `[rows, f]`.
fn gate(activation: Activation, gate_up: LinearOutput) -> HiddenStates {
    match gate_up {
        LinearOutput::Whole(HiddenStates::Host { values: gate_up, width }) => {
            let mut values = PooledVec::unset(gate_up.len() / 2);
            activation::gate_on_team(activation, &gate_up, width / 2, &mut values);
            HiddenStates::Host { values, width: width / 2 }
        }
        gate_up => HiddenStates::on_device(activation::gate(activation, gate_up.parts())),
    }
}

/// `max(x, 0)`.
fn relu(x: HiddenStates) -> HiddenStates {
    match x {
        HiddenStates::Host { mut values, width } => {
            values.iter_mut().for_each(|value| *value = value.max(0.0));
            HiddenStates::Host { values, width }
        }
        HiddenStates::Device(x) => HiddenStates::on_device(burn::tensor::activation::relu(*x)),
    }
}
