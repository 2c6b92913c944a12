//! Muon: the update of a matrix is its momentum, orthogonalised.

use super::{Moments, Optimizer};
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use gorgon_kernels::squares::sum_of_squares;

/// Coefficients of the quintic Newton-Schulz iteration: chosen for the steepest slope at zero, so that five rounds
/// bring all singular values near one (Jordan, 2024).
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
const ROUNDS: usize = 5;

/// `m ← μ m + g`; `w ← w - rate · (√max(1, out/in) · orthogonal(g + μ m) + decay · w)`.
pub fn apply(optimizer: &Optimizer, parameter: &mut Parameter, moments: &mut Moments, gradient: Tensor<1>, rate: f64) {
    let [rows, columns] = [parameter.shape[0], parameter.shape[1]];
    let momentum = moments.first.clone() * optimizer.momentum + gradient.clone();
    let nesterov = gradient + momentum.clone() * optimizer.momentum;
    let direction = orthogonal(nesterov.reshape([rows, columns])).reshape([rows * columns]);
    let scale = (rows as f64 / columns as f64).max(1.0).sqrt();
    let keep = 1.0 - rate / optimizer.muon_factor * optimizer.weight_decay;
    parameter.value = parameter.value.clone() * keep - direction * (rate * scale);
    moments.first = momentum;
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
