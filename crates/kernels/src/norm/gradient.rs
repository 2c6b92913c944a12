//! RMS normalisation with a gradient.

use super::rms_norm_rows;
use crate::differentiable::{self, Differentiable, Operand};
use crate::{Isa, isa::per_isa, lanes};
use burn::tensor::Tensor;
use rayon::prelude::*;

/// Rows that one task takes on.
const ROWS: usize = 64;

/// [`super::rms_norm`] for tensors that are tracked for gradients.
///
/// # Shapes
/// `x [rows, d]`, `w [d]`, result as `x`.
pub fn rms_norm_tracked(x: Tensor<2>, w: &Tensor<1>, eps: f32) -> Tensor<2> {
    if let (Some(a), Some(b)) = (Operand::of(&x), Operand::of(w)) {
        return differentiable::apply(RmsNorm { eps }, [a, b], x.dims());
    }
    let scale = (x.clone().powi_scalar(2).mean_dim(1) + eps).sqrt().recip();
    x * scale * w.clone().unsqueeze()
}

#[derive(Clone, Debug)]
struct RmsNorm {
    eps: f32,
}

impl Differentiable<2> for RmsNorm {
    fn forward(&self, [x, w]: [&[f32]; 2]) -> Vec<f32> {
        let mut y = vec![0f32; x.len()];
        let tasks = x.par_chunks(ROWS * w.len()).zip(y.par_chunks_mut(ROWS * w.len()));
        tasks.for_each(|(x, y)| rms_norm_rows(Isa::detect(), x, w, self.eps, y));
        y
    }

    fn backward(&self, [x, w]: [&[f32]; 2], g: &[f32]) -> [Vec<f32>; 2] {
        let mut dx = vec![0f32; x.len()];
        let width = ROWS * w.len();
        let tasks = x.par_chunks(width).zip(g.par_chunks(width)).zip(dx.par_chunks_mut(width));
        let parts: Vec<Vec<f32>> = tasks
            .map(|((x, g), dx)| {
                let mut dw = vec![0f32; w.len()];
                backward_rows(Isa::detect(), x, w, self.eps, g, dx, &mut dw);
                dw
            })
            .collect();
        // Summed in the order of the rows, whichever thread did them.
        let mut dw = vec![0f32; w.len()];
        parts.iter().for_each(|part| dw.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
        [dx, dw]
    }
}

per_isa! {
    /// With `r = 1/√(mean(x²) + ε)`: `∂x = r (g w - x r² mean(g w x))`, `∂w = Σ g x r`.
    fn backward_rows(x: &[f32], w: &[f32], eps: f32, g: &[f32], dx: &mut [f32], dw: &mut [f32]) {
        let d = w.len();
        let mut gw = vec![0f32; d];
        for ((x, g), dx) in x.chunks_exact(d).zip(g.chunks_exact(d)).zip(dx.chunks_exact_mut(d)) {
            let r = 1.0 / (lanes::dot(x, x) / d as f32 + eps).sqrt();
            for i in 0..d {
                gw[i] = g[i] * w[i];
                dw[i] += g[i] * x[i] * r;
            }
            let mean = lanes::dot(&gw, x) / d as f32 * r * r;
            for i in 0..d {
                dx[i] = r * (gw[i] - x[i] * mean);
            }
        }
    }
}
