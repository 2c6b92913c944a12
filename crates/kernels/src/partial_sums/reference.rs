//! The definition of a sum of parts.

/// `Σ_p sums[p]`, added in the order of the parts and then rounded by `round`.
///
/// # Shapes
/// `sums [parts, size]`, result `[size]`.
pub fn sum(sums: &[f32], size: usize, round: impl Fn(f32) -> f32) -> Vec<f32> {
    let of = |at: usize| sums[at..].iter().step_by(size).copied().reduce(|sum, part| sum + part);
    (0..size).map(|at| round(of(at).unwrap_or(0.0))).collect()
}
