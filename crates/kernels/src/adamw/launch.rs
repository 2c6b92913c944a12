//! A step of AdamW on burn tensors.

use super::AdamWStep;
use crate::host;
use burn::tensor::Tensor;

/// The weights and moments after a step: on a GPU in one launch, in their memory where nothing else refers to it.
///
/// # Shapes
/// `[w, m, v]` and `g` all `[n]`, in `f32`.
///
/// # Panics
/// If they are not as large as each other.
pub fn update(step: &AdamWStep, [w, m, v]: [Tensor<1>; 3], g: &Tensor<1>) -> [Tensor<1>; 3] {
    assert!([&w, &m, &v].iter().all(|tensor| tensor.dims() == g.dims()), "moments of another parameter");
    if let [Some(a), Some(b), Some(c), Some(g)] = [&w, &m, &v, g].map(host::read) {
        let mut new = [a, b, c].map(|values| values.as_slice().to_vec());
        super::update_values(step, new.each_mut().map(Vec::as_mut_slice), g.as_slice());
        return new.map(|values| host::tensor(values, w.dims()));
    }
    #[cfg(feature = "gpu")]
    if let Some(gradient) = crate::device::untracked(g) {
        // Handles take the tensors over: memory that something else refers to is not written.
        let tensors = [w, m, v].map(crate::device::taken);
        return super::cube::update(step, tensors, &gradient).map(crate::device::float_tensor);
    }
    composed(step, [w, m, v], g)
}

/// The step in operations of burn, for devices without kernels.
pub(super) fn composed(step: &AdamWStep, [w, m, v]: [Tensor<1>; 3], g: &Tensor<1>) -> [Tensor<1>; 3] {
    let (b1, b2) = step.betas;
    let m = m * b1 + g.clone() * (1.0 - b1);
    let v = v * b2 + g.clone() * g.clone() * (1.0 - b2);
    let direction = m.clone() * step.corrections.0 / ((v.clone() * step.corrections.1).sqrt() + step.epsilon);
    [w * step.keep - direction * step.rate, m, v]
}
