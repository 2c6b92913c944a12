//! The definition of the rotary embedding, in the half-split layout that Hugging Face checkpoints use.

/// Rotates the pairs `(x_i, x_{i + r/2})`, `i < r/2`, of one head by `angles[i]`; dimensions from `r = 2·angles.len()`
/// on stay as they are.
pub fn rotate(head: &[f32], angles: &[f64]) -> Vec<f64> {
    let half = angles.len();
    let mut out: Vec<f64> = head.iter().map(|&v| f64::from(v)).collect();
    for (i, angle) in angles.iter().enumerate() {
        let (a, b) = (f64::from(head[i]), f64::from(head[i + half]));
        out[i] = a * angle.cos() - b * angle.sin();
        out[i + half] = b * angle.cos() + a * angle.sin();
    }
    out
}
