//! The SiLU gate with a gradient.

use crate::differentiable::{self, Differentiable, Operand};
use crate::{Isa, isa::per_isa, lanes};
use burn::tensor::{Tensor, activation};
use rayon::prelude::*;

/// Values that one task takes on.
const VALUES: usize = 1 << 14;

/// `silu(gate) · up` for tensors that are tracked for gradients.
///
/// # Shapes
/// All `[rows, d]`.
pub fn silu_gate_tracked(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    if let (Some(a), Some(b)) = (Operand::of(&gate), Operand::of(&up)) {
        return differentiable::apply(SiluGate, [a, b], gate.dims());
    }
    activation::silu(gate) * up
}

#[derive(Clone, Debug)]
struct SiluGate;

impl Differentiable<2> for SiluGate {
    fn forward(&self, [gate, up]: [&[f32]; 2]) -> Vec<f32> {
        let mut y = vec![0f32; gate.len()];
        let tasks = y.par_chunks_mut(VALUES).zip(gate.par_chunks(VALUES)).zip(up.par_chunks(VALUES));
        tasks.for_each(|((y, gate), up)| forward_values(Isa::detect(), gate, up, y));
        y
    }

    fn backward(&self, [gate, up]: [&[f32]; 2], g: &[f32]) -> [Vec<f32>; 2] {
        let (mut d_gate, mut d_up) = (vec![0f32; gate.len()], vec![0f32; gate.len()]);
        let inputs = gate.par_chunks(VALUES).zip(up.par_chunks(VALUES)).zip(g.par_chunks(VALUES));
        let tasks = inputs.zip(d_gate.par_chunks_mut(VALUES).zip(d_up.par_chunks_mut(VALUES)));
        tasks.for_each(|(((gate, up), g), (d_gate, d_up))| {
            backward_values(Isa::detect(), gate, up, g, d_gate, d_up);
        });
        [d_gate, d_up]
    }
}

per_isa! {
    fn forward_values(gate: &[f32], up: &[f32], y: &mut [f32]) {
        for ((y, &gate), &up) in y.iter_mut().zip(gate).zip(up) {
            *y = gate / (1.0 + lanes::exp(-gate)) * up;
        }
    }
}

per_isa! {
    /// `silu'(x) = σ(x) (1 + x (1 - σ(x)))`.
    fn backward_values(gate: &[f32], up: &[f32], g: &[f32], d_gate: &mut [f32], d_up: &mut [f32]) {
        let n = gate.len();
        let (up, g, d_gate, d_up) = (&up[..n], &g[..n], &mut d_gate[..n], &mut d_up[..n]);
        for i in 0..n {
            let sigmoid = 1.0 / (1.0 + lanes::exp(-gate[i]));
            d_up[i] = g[i] * gate[i] * sigmoid;
            d_gate[i] = g[i] * up[i] * sigmoid * (1.0 + gate[i] * (1.0 - sigmoid));
        }
    }
}
