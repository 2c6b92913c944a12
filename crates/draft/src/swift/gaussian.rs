//! A Gaussian process over sets of sub-layers.
//!
//! Scores are normalised to mean 0 and deviation 1. Two sets that differ in `h` sub-layers, of `n` left out, are at the
//! distance `r = √(h/n)`, and their covariance is Matérn's with `ν = 5/2`, `(1 + √5 r + 5 r²/3) exp(-√5 r)`. Scores have
//! a noise of the variance 0.01.

use gorgon_model::pass::SkippedSublayers;

/// Variance of the noise.
const NOISE: f64 = 1e-2;
/// Deviations that the upper bound lies above the mean.
const KAPPA: f64 = 2.5;

/// `μ + 2.5 σ` of sets under a process fitted to scores; sets have `count` sub-layers each.
pub(super) fn upper_bounds(tried: &[(SkippedSublayers, f64)], sets: &[SkippedSublayers], count: usize) -> Vec<f64> {
    let n = tried.len();
    let mean = tried.iter().map(|(_, score)| score).sum::<f64>() / n.max(1) as f64;
    let variance = tried.iter().map(|(_, score)| (score - mean).powi(2)).sum::<f64>() / n.max(1) as f64;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    let noise = |i: usize, j: usize| if i == j { NOISE } else { 0.0 };
    let kernel: Vec<Vec<f64>> =
        (0..n).map(|i| (0..=i).map(|j| covariance(&tried[i].0, &tried[j].0, count) + noise(i, j)).collect()).collect();
    let factor = cholesky(kernel);
    let scores: Vec<f64> = tried.iter().map(|(_, score)| (score - mean) / deviation).collect();
    let whitened = forward(&factor, &scores);
    let bound = |set: &SkippedSublayers| {
        let towards: Vec<f64> = tried.iter().map(|(other, _)| covariance(set, other, count)).collect();
        let towards = forward(&factor, &towards);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(&towards, &whitened) + KAPPA * (1.0 - dot(&towards, &towards)).max(0.0).sqrt()
    };
    sets.iter().map(bound).collect()
}

fn covariance(a: &SkippedSublayers, b: &SkippedSublayers, count: usize) -> f64 {
    let differ = |layer: usize| {
        usize::from(a.attention(layer) != b.attention(layer)) + usize::from(a.mlp(layer) != b.mlp(layer))
    };
    let differing: usize = (0..a.layers().min(b.layers())).map(differ).sum();
    let scaled = (5.0 * differing as f64 / count.max(1) as f64).sqrt();
    (1.0 + scaled + scaled * scaled / 3.0) * (-scaled).exp()
}

/// `L` with `L Lᵀ` equal to a positive matrix, of which rows up to the diagonal are given.
fn cholesky(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for i in 0..rows.len() {
        let (done, rest) = rows.split_at_mut(i);
        let row = &mut rest[0];
        for j in 0..=i {
            let other = if j < i { Some(&done[j]) } else { None };
            let inner: f64 = (0..j).map(|k| row[k] * other.map_or(row[k], |other| other[k])).sum();
            let left = row[j] - inner;
            row[j] = match other {
                Some(other) => left / other[j],
                None => left.max(f64::MIN_POSITIVE).sqrt(),
            };
        }
    }
    rows
}

/// `L⁻¹ b`.
fn forward(factor: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let mut x: Vec<f64> = vec![];
    for (row, &b) in factor.iter().zip(b) {
        let inner: f64 = row.iter().zip(&x).map(|(l, x)| l * x).sum();
        x.push((b - inner) / row[x.len()]);
    }
    x
}

#[cfg(test)]
mod tests;
