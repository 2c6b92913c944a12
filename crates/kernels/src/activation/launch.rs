//! The gate on burn tensors.

use super::Activation;
use crate::{Isa, host};
use burn::tensor::{DType, Tensor, activation};

/// `act(gate) · up` where the last dimension of `x` holds `[gate | up]`.
///
/// # Shapes
/// `x [batch, rows, 2 d]`, result `[batch, rows, d]`.
pub fn gate(kind: Activation, x: &Tensor<3>) -> Tensor<3> {
    let [batch, rows, width] = x.dims();
    let d = width / 2;
    if let Some(values) = host::read(x) {
        let mut y = vec![0f32; batch * rows * d];
        let (isa, x) = (Isa::detect(), values.as_slice());
        // An element costs an exponential: some twenty operations.
        crate::team::chunks(&mut y, d.max(1), 20 * batch * rows * d, |row, y| {
            super::gate_rows(isa, kind, &x[row * width..(row + 1) * width], d, y);
        });
        return host::tensor(y, [batch, rows, d]);
    }
    #[cfg(feature = "gpu")]
    if let Some(values) = crate::device::untracked(x) {
        return crate::device::float_tensor(super::cube::gate(kind, &values, x.dims()));
    }
    let (gate, up) = (x.clone().narrow(2, 0, d), x.clone().narrow(2, d, d));
    match kind {
        Activation::Silu => activation::silu(gate) * up,
        Activation::GeluTanh => {
            let cubic = gate.clone() + gate.clone().powi_scalar(3) * 0.044_715;
            gate * ((cubic * 0.797_884_560_802_865_4).tanh() + 1.0) * 0.5 * up
        }
    }
}

/// `x · sigmoid(x)`.
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if let Some(values) = host::read(&x) {
        let mut y = values.as_slice().to_vec();
        super::silu_rows(Isa::detect(), &mut y);
        return host::tensor(y, x.dims());
    }
    activation::silu(x)
}

/// `cap · tanh(x / cap)`, computed in `f32`.
pub fn soft_cap<const D: usize>(x: Tensor<D>, cap: f32) -> Tensor<D> {
    let dtype = x.dtype();
    if let Some(values) = host::read(&x) {
        let mut y = values.as_slice().to_vec();
        super::soft_cap_rows(Isa::detect(), &mut y, cap);
        return host::tensor(y, x.dims());
    }
    ((x.cast(DType::F32) / cap).tanh() * cap).cast(dtype)
}
