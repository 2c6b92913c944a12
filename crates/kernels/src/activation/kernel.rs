//! The CPU kernels.

use super::Activation;
use crate::{isa::per_isa, lanes};

per_isa! {
    /// `y = act(gate) · up` for rows `[gate | up]`.
    ///
    /// `x [rows, 2 d]`, `y [rows, d]`.
    pub fn gate_rows(activation: Activation, x: &[f32], d: usize, y: &mut [f32]) {
        for (x, y) in x.chunks_exact(2 * d).zip(y.chunks_exact_mut(d)) {
            let (gate, up) = x.split_at(d);
            match activation {
                Activation::Silu => {
                    for ((y, &g), &u) in y.iter_mut().zip(gate).zip(up) {
                        *y = g / (1.0 + lanes::exp(-g)) * u;
                    }
                }
                Activation::GeluTanh => {
                    for ((y, &g), &u) in y.iter_mut().zip(gate).zip(up) {
                        let inner = 0.797_884_6 * (g * g).mul_add(0.044_715 * g, g);
                        *y = 0.5 * g * (1.0 + lanes::tanh(inner)) * u;
                    }
                }
            }
        }
    }
}

per_isa! {
    /// `x ← x · sigmoid(x)`.
    pub fn silu_rows(x: &mut [f32]) {
        for v in x {
            *v = *v / (1.0 + lanes::exp(-*v));
        }
    }
}

per_isa! {
    /// `x ← cap · tanh(x / cap)`.
    pub fn soft_cap_rows(x: &mut [f32], cap: f32) {
        for v in x {
            *v = cap * lanes::tanh(*v / cap);
        }
    }
}

#[cfg(test)]
mod tests;
