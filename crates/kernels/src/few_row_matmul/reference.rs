//! The definition of the few-row product.

/// `y[r, c] = Σ_k x[r, k] · w[c, k]`, accumulated with fused multiply-adds over increasing `k`.
///
/// # Shapes
/// `x [rows, d_in]`, `w [d_out, d_in]` (as checkpoints store it), result `[rows, d_out]`.
pub fn few_row_matmul(x: &[f32], w: &[f32], d_in: usize, d_out: usize) -> Vec<f32> {
    let rows = x.len() / d_in;
    let mut y = vec![0f32; rows * d_out];
    for r in 0..rows {
        for c in 0..d_out {
            let mut sum = 0f32;
            for k in 0..d_in {
                sum = x[r * d_in + k].mul_add(w[c * d_in + k], sum);
            }
            y[r * d_out + c] = sum;
        }
    }
    y
}
