//! The definition of the gate.

use super::Activation;

/// `act(gate) · up` in double precision.
pub fn gate(activation: Activation, gate: f64, up: f64) -> f64 {
    let act = match activation {
        Activation::Silu => gate / (1.0 + (-gate).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
            0.5 * gate * (1.0 + inner.tanh())
        }
    };
    act * up
}
