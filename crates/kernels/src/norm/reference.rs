//! The definition of RMS normalisation.

/// `y_i = x_i / sqrt(mean(x²) + eps) · w_i`, in double precision.
///
/// # Shapes
/// `x [d]`, `w [d]`.
pub fn rms_norm(x: &[f32], w: &[f32], eps: f64) -> Vec<f64> {
    let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / x.len() as f64;
    x.iter().zip(w).map(|(&v, &w)| f64::from(v) / (mean + eps).sqrt() * f64::from(w)).collect()
}
