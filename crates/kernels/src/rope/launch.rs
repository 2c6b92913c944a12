//! The rotary embedding of burn tensors (devices other than the CPU).

use burn::tensor::Tensor;

/// Rotates every head by its position's angles.
///
/// # Shapes
/// `x [batch, heads, rows, head_dim]`; `cos`, `sin` `[rows, r/2]` with `r ≤ head_dim`; result as `x`.
pub fn rotate(x: Tensor<4>, cos: &Tensor<2>, sin: &Tensor<2>) -> Tensor<4> {
    let [_, _, _, head_dim] = x.dims();
    let half = cos.dims()[1];
    let (cos, sin) = (cos.clone().cast(x.dtype()).unsqueeze(), sin.clone().cast(x.dtype()).unsqueeze());
    let (a, b) = (x.clone().narrow(3, 0, half), x.clone().narrow(3, half, half));
    let mut parts = vec![a.clone() * cos.clone() - b.clone() * sin.clone(), b * cos + a * sin];
    if head_dim > 2 * half {
        parts.push(x.narrow(3, 2 * half, head_dim - 2 * half));
    }
    Tensor::cat(parts, 3)
}
