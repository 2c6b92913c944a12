//! Muon: the update of a matrix is its momentum, orthogonalised.

use crate::parameters::Parameter;
use burn::tensor::Tensor;
use gorgon_kernels::squares::sum_of_squares;

/// Coefficients of the quintic Newton-Schulz iteration: chosen for the steepest slope at zero, so that five rounds
/// bring all singular values near one (Jordan, 2024).
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
const ROUNDS: usize = 5;

/// The numbers of one step.
pub struct Muon {
    /// `μ`.
    pub momentum: f64,
    /// Learning rate.
    pub rate: f64,
    /// Factor of the weight decay: `1 - rate · decay`, with the rate of AdamW.
    pub keep: f64,
}

/// `m ← μ m + g`; `w ← keep · w - rate · √max(1, out/in) · orthogonal(g + μ m)`.
///
/// # Shapes
/// `parameter` a matrix `[out, in]`; `moment` and `gradient` flat, of its size.
pub fn apply(rule: &Muon, parameter: &mut Parameter, moment: &mut Tensor<1>, gradient: Tensor<1>) {
    let [rows, columns] = [parameter.shape[0], parameter.shape[1]];
    let momentum = moment.clone() * rule.momentum + gradient.clone();
    let nesterov = gradient + momentum.clone() * rule.momentum;
    let direction = orthogonal(nesterov.reshape([rows, columns])).reshape([rows * columns]);
    let scale = (rows as f64 / columns as f64).max(1.0).sqrt();
    parameter.value = parameter.value.clone() * rule.keep - direction * (rule.rate * scale);
    *moment = momentum;
}

/// The nearest semi-orthogonal matrix, roughly: with `X = G / |G|`, five rounds of `X ← a X + (b A + c A²) X`,
/// `A = X Xᵀ`, over the shorter side.
fn orthogonal(gradient: Tensor<2>) -> Tensor<2> {
    let [rows, columns] = gradient.dims();
    let tall = rows > columns;
    let norm = sum_of_squares(&gradient.clone().reshape([rows * columns])).sqrt().reshape([1, 1]) + 1e-7;
    let x = if tall { gradient.transpose() } else { gradient };
    let mut x = x / norm;
    let [a, b, c] = COEFFICIENTS;
    for _ in 0..ROUNDS {
        let gram = x.clone().matmul(x.clone().transpose());
        let polynomial = gram.clone() * b + gram.clone().matmul(gram) * c;
        x = x.clone() * a + polynomial.matmul(x);
    }
    if tall { x.transpose() } else { x }
}

#[cfg(test)]
mod tests;
