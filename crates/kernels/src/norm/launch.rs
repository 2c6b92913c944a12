//! RMS normalisation of burn tensors.

use crate::partial_sums::PartialSums;
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
    #[cfg(feature = "gpu")]
    if let (Some(values), Some(weights)) = (crate::device::untracked(x), single(w)) {
        return crate::device::float_tensor(super::cube::rms_norm(&values, None, &weights, eps, x.dims()).1);
    }
    let dtype = x.dtype();
    let x = x.clone().cast(DType::F32);
    let scale = (x.clone().powi_scalar(2).mean_dim(D - 1) + eps).sqrt().recip();
    (x * scale * w.clone().cast(DType::F32).unsqueeze()).cast(dtype)
}

/// `x + y` and its [`rms_norm`]: on a GPU in one launch, which adds up the parts of `y` too.
///
/// # Shapes
/// `x [batch, rows, d]`, `y` and both results the same.
pub fn add_rms_norm(x: Tensor<3>, y: PartialSums, w: &Tensor<1>, eps: f32) -> (Tensor<3>, Tensor<3>) {
    assert_eq!(x.dims(), y.dims(), "rows of another shape");
    #[cfg(feature = "gpu")]
    if let (Some(values), Some(added), Some(weights)) = (crate::device::untracked(&x), y.on_device(), single(w))
        && let (Some(sum), normed) = super::cube::rms_norm(&values, Some(&added), &weights, eps, x.dims())
    {
        return (crate::device::float_tensor(sum), crate::device::float_tensor(normed));
    }
    let sum = x + y.sum();
    let normed = rms_norm(&sum, w, eps);
    (sum, normed)
}

/// Weights in `f32`, if they are on a GPU and without gradients.
#[cfg(feature = "gpu")]
fn single(w: &Tensor<1>) -> Option<burn_cubecl::tensor::CubeTensor> {
    crate::device::untracked(&w.clone().cast(DType::F32))
}
