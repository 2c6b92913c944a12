//! RMS normalisation of burn tensors.

use crate::{Isa, host};
use burn::tensor::{DType, Tensor};

/// `x / sqrt(mean(x²) + eps) · w` over the last dimension, computed in `f32`.
///
/// # Shapes
/// `x [.., d]`, `w [d]`, result as `x`.
pub fn rms_norm<const D: usize>(x: &Tensor<D>, w: &Tensor<1>, eps: f32) -> Tensor<D> {
    if let (Some(values), Some(weights)) = (host::read(x), host::read(w)) {
        let mut y = vec![0f32; values.as_slice().len()];
        super::rms_norm_rows(Isa::detect(), values.as_slice(), weights.as_slice(), eps, &mut y);
        return host::tensor(y, x.dims());
    }
    let dtype = x.dtype();
    let x = x.clone().cast(DType::F32);
    let scale = (x.clone().powi_scalar(2).mean_dim(D - 1) + eps).sqrt().recip();
    (x * scale * w.clone().cast(DType::F32).unsqueeze()).cast(dtype)
}
